"""The strategies of CustomResourceDefinitions in the server's own CRD API.

They set defaults, validate (`validation.py`), and leave the status to the controller. A delete only marks the definition as
terminating; the controller deletes its objects first. Pure.
Source: k8s.io/apiextensions-apiserver pkg/registry/customresourcedefinition/strategy.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aggserver.apiextensions import conditions, conversion_annotation, manifest, schema_rules, validation
from aggserver.merge.managed_fields import FieldManager
from aggserver.meta import codec, errors
from aggserver.meta.field import FieldError, Path
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.registry.own_kinds import own_fields
from aggserver.registry.rest import Context
from aggserver.registry.strategy import StrategyDefaults, Verdict
from aggserver.schema.rules import UPSTREAM, RuleOptions
from aggserver.scheme import object_meta
from aggserver.scheme.decoding import decode_error

__all__ = ["CLEANUP_FINALIZER", "INFO", "DefinitionStatusStrategy", "DefinitionStrategy", "set_defaults"]

INFO = ResourceInfo(
    group="apiextensions.k8s.io",
    version="v1",
    resource="customresourcedefinitions",
    kind="CustomResourceDefinition",
    list_kind="CustomResourceDefinitionList",
    namespaced=False,
)
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

# Limits for validation in the event loop: bytes of a definition, which take 0.5 us each, and characters of rules, which take
# 10 us each. Larger definitions are validated in a thread.
_QUICK = 32 * 1024
_QUICK_RULES = 2000


def set_defaults(obj: JSONObject) -> None:
    """Set the defaults in a definition, which must fit its type."""
    spec = obj.get("spec")
    if spec is None:
        return
    if "names" in spec:
        spec["names"] = manifest.default_names(spec["names"])
    for version in spec.get("versions") or ():
        version.setdefault("served", False)
        version.setdefault("storage", False)
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = conversion.get("webhook", {}).get("clientConfig", {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


_TYPE = "apiextensions/v1.CustomResourceDefinition"
_FIELDS = own_fields(INFO, _TYPE, resets=("status",))
_STATUS_FIELDS = own_fields(INFO, _TYPE, "status", resets=("spec",))


class DefinitionStrategy(StrategyDefaults):
    def __init__(self, rule_options: RuleOptions = UPSTREAM) -> None:
        self._rule_options = rule_options

    @property
    def info(self) -> ResourceInfo:
        return INFO

    @property
    def field_manager(self) -> FieldManager | None:
        return _FIELDS

    def conform(self, obj: JSONObject) -> list[str]:
        """Like upstream's decoder: refuse members of a wrong type with 400, drop unknown ones, and set defaults."""
        why = decode_error(obj, manifest.TYPE) or ", ".join(map(str, manifest.problems(obj)))
        if why:
            what = 'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition'
            raise errors.bad_request(f"{what}: {why}")
        dropped = manifest.prune(obj)
        set_defaults(obj)
        status = obj.get("status") or {}
        if not status.get("storedVersions") and (stored := conditions.stored_versions({**obj, "status": {}})):
            obj["status"] = {**status, "storedVersions": stored}
        return dropped

    def default(self, obj: JSONObject) -> None:
        self.conform(obj)

    def prepare_for_create(self, obj: JSONObject, context: Context, now: str) -> None:
        obj["metadata"]["generation"] = 1
        obj["status"] = conditions.initial_status(obj)

    def validate(self, obj: JSONObject) -> Verdict:
        problems = object_meta.validate_object_meta(
            obj["metadata"], Path("metadata"), namespaced=False, name_rule=object_meta.dns1123_subdomain
        )
        return self._verdict_of(obj, None, lambda: problems + validation.validate(obj, self._rule_options))

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        obj["status"] = dict(old.get("status") or {})
        obj["status"]["storedVersions"] = conditions.stored_versions(obj)
        if obj.get("spec") != old.get("spec"):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        return self._verdict_of(obj, old, lambda: validation.validate_update(obj, old, self._rule_options))

    def _verdict_of(self, obj: JSONObject, old: JSONObject | None, judge: Callable[[], list[FieldError]]) -> Verdict:
        """The verdict, computed later for large definitions. The defaults in the schemas of a valid one are pruned."""
        spec = obj.get("spec") or {}

        def verdict() -> Verdict:
            problems = judge()
            if problems:
                return Verdict(problems)
            schema_rules.type_defaults(obj["spec"])
            return Verdict([], conversion_annotation.advice(obj, old, self._rule_options))

        is_small = len(codec.encode_json(spec)) <= _QUICK and schema_rules.length_of_rules(spec) <= _QUICK_RULES
        # Conversion rules are tried out on samples, which takes some hundred milliseconds.
        if is_small and not conversion_annotation.changed(obj, old):
            return verdict()
        return Verdict([], later=lambda is_given_up: verdict())

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> Sequence[str]:
        known = schema_rules.unrecognized_formats(old["spec"]) if old is not None else []
        return [
            f"unrecognized format {quote(name)}" for name in schema_rules.unrecognized_formats(obj["spec"]) if name not in known
        ]

    def prepare_for_delete(self, obj: JSONObject, now: str) -> None:
        if "deletionTimestamp" in obj["metadata"]:
            return
        metadata = obj["metadata"]
        finalizers = list(metadata.get("finalizers") or ())
        if CLEANUP_FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, CLEANUP_FINALIZER]
        text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        obj["status"] = conditions.with_condition(
            obj.get("status") or {}, "Terminating", "True", "InstanceDeletionPending", text, now
        )
        metadata["deletionTimestamp"] = now


class DefinitionStatusStrategy(DefinitionStrategy):
    """The strategy of the subresource `status`: keeps the spec. As upstream, writes may change metadata, by which the controller
    removes its finalizer.
    """

    @property
    def field_manager(self) -> FieldManager | None:
        return _STATUS_FIELDS

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        if "spec" in old:
            obj["spec"] = old["spec"]

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        return Verdict(validation.validate_status_update(obj))

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> Sequence[str]:
        return ()
