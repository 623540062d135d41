"""The strategies of the built-in kinds: one for the objects themselves, one for `/status`, both driven by the catalog.

An object is decoded and pruned as Go does it, and gets upstream's defaults. The catalog says which changes increment the
generation.
Pure. Source: k8s.io/kubernetes pkg/registry/*/*/strategy.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from aggserver.authentication.user import UserInfo
from aggserver.kinds.behaviours import ON_CREATE, ON_DECODE, ON_STATUS_UPDATE, ON_UPDATE
from aggserver.kinds.catalog import BuiltInKind, type_name
from aggserver.kinds.creation import CreateRequest, prepare_new
from aggserver.kinds.defaults import set_defaults
from aggserver.kinds.flow_control import conditions_problems
from aggserver.kinds.immutable import changed_immutables
from aggserver.kinds.jobs import job_status_problems
from aggserver.kinds.kind_rules import kind_problems
from aggserver.kinds.pod_updates import changed_annotations
from aggserver.kinds.quota_rules import quota_status_problems
from aggserver.kinds.warnings import warnings
from aggserver.merge import fieldset, go_types
from aggserver.merge.atom import Atom
from aggserver.merge.fieldset import FieldSet
from aggserver.merge.managed_fields import FieldManager
from aggserver.merge.managers import no_other_version
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.meta.versions import parse_group_version
from aggserver.registry.own_kinds import conformer
from aggserver.registry.rest import Context
from aggserver.registry.strategy import StrategyDefaults, Verdict
from aggserver.scheme import object_meta
from aggserver.scheme.types import lookup
from aggserver.scheme.validation import Rule, validate

__all__ = ["ALL_METADATA", "KindStatusStrategy", "KindStrategy", "type_conformer"]

_POD, _JOB, _QUOTA = "core/v1.Pod", "batch/v1.Job", "core/v1.ResourceQuota"
# Kinds for which errors of immutable fields are reported last, as upstream.
_CHANGES_LAST = frozenset({_POD, _JOB, _QUOTA, "apps/v1.StatefulSet", "core/v1.PersistentVolumeClaim"})
# In updates of this kind, only immutable fields are checked: the object may have been created as an Event of the core group.
_LENIENT = "events/v1.Event"
_SIGNING = "certificates/v1.CertificateSigningRequest"
_INGRESS = "networking/v1.Ingress"
_WITH_PODS = frozenset(
    {
        "apps/v1.DaemonSet",
        "apps/v1.Deployment",
        "apps/v1.ReplicaSet",
        "apps/v1.StatefulSet",
        "batch/v1.CronJob",
        "batch/v1.Job",
        "core/v1.PersistentVolumeClaim",
        "core/v1.Pod",
        "core/v1.PodTemplate",
        "core/v1.ReplicationController",
    }
)
_ORPHANED_PODS_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
# The metadata that ResetObjectMetaForStatus keeps. It does not keep managedFields: they record who wrote the status.
ALL_METADATA = (
    "deletionTimestamp",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)


def type_conformer(type_name: str) -> Callable[[JSONObject], list[str]]:
    """A function that prunes and defaults a decoded body in place, as upstream's decoder does.

    It returns the paths of unknown fields. Raises StatusError 400 for a wrong type. type_name: in the tables of `scheme/`.
    """
    decode = conformer(type_name)
    change = ON_DECODE.get(type_name)

    def conform(obj: JSONObject) -> list[str]:
        unknown = decode(obj)
        set_defaults(obj, type_name)
        if change is not None:
            change(obj)
        return unknown

    return conform


class KindStrategy(StrategyDefaults):
    """The strategy of the objects themselves.

    convert: converts an object to another version, for managedFields. Raises MissingVersionError. tracks_fields: whether writes
    update managedFields; not for `/scale`, which does so itself.
    """

    subresource = ""

    def __init__(
        self,
        kind: BuiltInKind,
        *,
        convert: Callable[[JSONObject, str], JSONObject] = no_other_version,
        tracks_fields: bool = True,
    ) -> None:
        self.kind = kind
        self.convert = convert
        self._tracks_fields = tracks_fields
        self._conform = type_conformer(kind.type_name)

    @property
    def info(self) -> ResourceInfo:
        return self.kind.info

    @cached_property
    def field_manager(self) -> FieldManager | None:
        if not self._tracks_fields:
            return None
        kind = self.kind
        resets = self._resets()
        return FieldManager(
            kind.api_version,
            kind.name,
            _atom_of(kind),
            self.convert,
            self.subresource,
            dict.fromkeys((each.api_version for each in kind.versions), resets) if resets else {},
            lambda: go_types.zero(kind.type_name),
        )

    def _resets(self) -> FieldSet:
        """The fields that no field manager owns after a write through this endpoint."""
        if not self.kind.has_status:
            return {}
        spec: FieldSet = {} if self.kind.own_spec else {fieldset.field("spec"): {}}
        return {**spec, fieldset.field("status"): {}}

    def conform(self, obj: JSONObject) -> list[str]:
        return self._conform(obj)

    def default(self, obj: JSONObject) -> None:
        self._conform(obj)

    def prepare_for_create(self, obj: JSONObject, context: Context, now: str) -> None:
        kind = self.kind
        if kind.generation:
            obj["metadata"]["generation"] = kind.generation
        else:
            obj["metadata"].pop("generation", None)
        if kind.has_status and not kind.keeps_status:
            obj.pop("status", None)
            self._conform(obj)
        prepare_new(obj, kind.type_name, CreateRequest(obj["metadata"].get("uid", ""), now, _user(context.user)))
        change = ON_CREATE.get(kind.type_name)
        if change is not None:
            change(obj, now)
        self._conform(obj)  # what was added has defaults, too

    def validate(self, obj: JSONObject) -> Verdict:
        if self.kind.group == "rbac.authorization.k8s.io":
            from aggserver.kinds import rbac_validation

            return Verdict(self._metadata_problems(obj) + rbac_validation.problems(obj))
        if self.kind.type_name == _SIGNING:
            from aggserver.kinds import signing_requests

            return Verdict(self._metadata_problems(obj) + signing_requests.problems(obj))
        found = self._metadata_problems(obj) + validate(obj, lookup(self.kind.type_name), self._own_rules(obj, None))
        return Verdict(found + kind_problems(self.kind.type_name, obj))

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        if self.kind.has_status:
            _keep(obj, old, "status")
        change = ON_UPDATE.get(self.kind.type_name)
        if change is not None:
            change(obj, old, now)
        if any(_counted(obj, path) != _counted(old, path) for path in self.kind.counted):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        if self.kind.group == "rbac.authorization.k8s.io":
            from aggserver.kinds import rbac_validation

            found = self._metadata_problems(obj) + rbac_validation.problems(obj, old)
            return Verdict(found + rbac_validation.update_problems(obj, old))
        if self.kind.type_name == _SIGNING:
            return self._signing_verdict(obj, old)
        changed = changed_immutables(self.kind.type_name, obj, old)
        if self.kind.type_name == _LENIENT:
            return Verdict(changed)
        problems = validate(obj, lookup(self.kind.type_name), self._own_rules(obj, old)) + kind_problems(
            self.kind.type_name, obj, old
        )
        if self.kind.type_name == _JOB:  # whose spec upstream validates twice
            problems = problems + problems
        return Verdict(problems + changed if self.kind.type_name in _CHANGES_LAST else changed + problems)

    def _own_rules(self, obj: JSONObject, old: JSONObject | None) -> Mapping[str, Rule]:
        """The rules of the Pods and claims in an object, or of an Ingress, imported with the first that has some."""
        if self.kind.type_name == _INGRESS:
            from aggserver.kinds.ingress_rules import rules_of_ingress

            return rules_of_ingress(obj, old)
        if self.kind.type_name not in _WITH_PODS:
            return {}
        from aggserver.kinds.pod_rules.workloads import rules_of

        return rules_of(self.kind.type_name, obj, old)

    def _signing_verdict(self, obj: JSONObject, old: JSONObject) -> Verdict:
        """The verdict on an update of a CertificateSigningRequest."""
        from aggserver.kinds import signing_requests

        through = self.subresource
        found = signing_requests.update_problems(obj, old, judges=through == "approval", issues=through == "status")
        return Verdict(self._metadata_problems(obj) + found)

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> Sequence[str]:
        return warnings(obj, old, self.kind.type_name)

    @property
    def unconditional_updates(self) -> bool:
        return self.kind.unconditional

    @property
    def creates_on_update(self) -> bool:
        return self.kind.creates

    @property
    def returns_deleted(self) -> bool:
        return self.kind.returns_deleted

    @property
    def orphans_dependents(self) -> bool:
        return self.kind.orphans

    @property
    def orphans_warning(self) -> str:
        return _ORPHANED_PODS_WARNING if self.kind.name == "Job" else ""

    def grace_period(self, obj: JSONObject, seconds: int | None) -> int | None:
        return _pod_grace(obj, seconds) if self.kind.graceful else None

    def _metadata_problems(self, obj: JSONObject) -> list[FieldError]:
        return object_meta.validate_object_meta(
            obj["metadata"], Path("metadata"), namespaced=self.kind.namespaced, name_rule=self.kind.name_rule
        )


class KindStatusStrategy(KindStrategy):
    """The strategy of `/status`, which changes the status and, for most kinds, metadata."""

    subresource = "status"

    def _resets(self) -> FieldSet:
        kept = self.kind.kept_by_status
        metadata: FieldSet = {} if "*" in kept else {fieldset.field(name): {} for name in sorted(kept)}
        conditions: FieldSet = {} if self.kind.own_spec else {fieldset.field("status"): {fieldset.field("conditions"): {}}}
        return {**({fieldset.field("metadata"): metadata} if kept else {}), fieldset.field("spec"): {}, **conditions}

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        for name in (obj.keys() | old.keys()) - {"apiVersion", "kind", "metadata", "status"}:
            _keep(obj, old, name)
        self._keep_metadata(obj, old)

        self._changed(obj, old, now)

    def _changed(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        change = ON_STATUS_UPDATE.get(self.kind.type_name)
        if change is not None:
            change(obj, old, now)

    def _keep_metadata(self, obj: JSONObject, old: JSONObject) -> None:
        for name in self._kept_metadata():
            _keep(obj["metadata"], old["metadata"], name)

    def _kept_metadata(self) -> tuple[str, ...]:
        return ALL_METADATA if "*" in self.kind.kept_by_status else self.kind.kept_by_status

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        if self.kind.type_name == _SIGNING:
            return self._signing_verdict(obj, old)
        problems = _STATUS_PROBLEMS.get(self.kind.type_name)
        return Verdict([] if problems is None else problems(obj, old))

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> Sequence[str]:
        return ()

    @property
    def creates_on_update(self) -> bool:
        return False


_STATUS_PROBLEMS: Mapping[str, Callable[[JSONObject, JSONObject], list[FieldError]]] = {
    _JOB: job_status_problems,
    _QUOTA: quota_status_problems,
    _POD: lambda obj, old: list(changed_annotations(obj, old)),
    "flowcontrol/v1.FlowSchema": conditions_problems,
    "flowcontrol/v1.PriorityLevelConfiguration": conditions_problems,
}


def _user(user: UserInfo) -> JSONObject:
    extra = {name: list(values) for name, values in user.extra.items()}
    return {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}


def _pod_grace(pod: JSONObject, seconds: int | None) -> int:
    """The grace period of a Pod, in seconds; 0 if no kubelet has to stop it. seconds: requested by the client, if any."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
        return 0
    period = spec.get("terminationGracePeriodSeconds") or 0 if seconds is None else seconds
    return 1 if period < 0 else period


def _atom_of(kind: BuiltInKind) -> Callable[[str], Atom]:
    """The type of the objects in each version of a kind."""

    def atom(api_version: str) -> Atom:
        group, version = parse_group_version(api_version)
        return go_types.of_type(type_name(group, version, kind.name))

    return atom


def _counted(obj: JSONObject, path: str) -> object:
    """A member that is compared to count the generation. An empty value counts as missing."""
    if path.startswith("metadata."):
        return obj["metadata"].get(path.removeprefix("metadata.")) or None
    return obj.get(path) or None


def _keep(obj: JSONObject, old: JSONObject, name: str) -> None:
    if name in old:
        obj[name] = old[name]
    else:
        obj.pop(name, None)
