"""Strategies of custom resources: for the object itself, and for its `/status`.

A strategy is for one version of one definition; its CompiledSchema prunes, defaults and validates.
Pure. Source: k8s.io/apiextensions-apiserver pkg/registry/customresource/{strategy,status_strategy,validator}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest

from aggserver.merge.managed_fields import FieldManager
from aggserver.meta import codec, field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONObject
from aggserver.meta.jsonpath import JSONPath
from aggserver.meta.resource import ResourceInfo
from aggserver.registry.nested import NestedError, find_integer, find_string, go_text
from aggserver.registry.rest import Context
from aggserver.registry.strategy import StrategyDefaults, Verdict
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.rules import OutOfPatienceError
from aggserver.scheme import object_meta

__all__ = ["CustomResourceStrategy", "ScalePaths", "StatusStrategy", "read_fields"]

_MAX_INT32 = 2147483647
_METADATA = Path("metadata")
# Units of CEL cost that validation rules may spend on the event loop; if they need more, they are run again in a thread. Nearly
# all objects need fewer; the slowest functions take some microseconds per unit.
_PATIENCE = 10_000
# Kubernetes' own finalizers, which need no domain.
_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
# Finalizers with a warning. The headers of a response have no room for more texts of this length, and sorting hundreds of
# thousands of names would block the event loop.
_MOST_WARNED = 100


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The paths of `/scale` as the definition has them (`.spec.replicas`). label_selector: '' for none."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""


class CustomResourceStrategy(StrategyDefaults):
    """The rules for the object itself. Errors are in upstream's order: type, metadata, values, scale, structure, and then those
    of x-kubernetes-validations.

    has_status: whether the definition has the status subresource, so that only `/status` can write `.status`.
    check_context: raises StatusError if no objects can be created. field_manager: for this endpoint.
    """

    def __init__(
        self,
        info: ResourceInfo,
        schema: CompiledSchema,
        *,
        has_status: bool,
        scale: ScalePaths | None,
        check_context: Callable[[Context], None],
        field_manager: FieldManager | None = None,
    ) -> None:
        self._info = info
        self._schema = schema
        self._has_status = has_status
        self._scale = scale
        self._check_context = check_context
        self._field_manager = field_manager

    @property
    def info(self) -> ResourceInfo:
        return self._info

    @property
    def field_manager(self) -> FieldManager | None:
        return self._field_manager

    @property
    def keeps_conformed(self) -> bool:
        return True

    def conform(self, obj: JSONObject) -> list[str]:
        return self._schema.conform(obj)

    def default(self, obj: JSONObject) -> None:
        self._schema.default(obj)

    def prune(self, obj: JSONObject) -> None:
        self._schema.prune_converted(obj)

    def prepare_for_create(self, obj: JSONObject, context: Context, now: str) -> None:
        if self._has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def validate(self, obj: JSONObject) -> Verdict:
        return self._judged(lambda: self._validate(obj))

    def _validate(self, obj: JSONObject) -> Verdict:
        values, structure = self._schema.on_create(obj)
        problems = self._validate_type(obj)
        if not problems:
            problems = object_meta.validate_object_meta(
                obj["metadata"], _METADATA, namespaced=self._info.namespaced, name_rule=object_meta.dns1123_subdomain
            )
            problems += values + self._validate_scale(obj)
        return self._with_rules(obj, None, problems + structure)

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        if self._has_status:
            if "status" in old:
                obj["status"] = old["status"]
            else:
                obj.pop("status", None)
        if _differs(obj, old):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        return self._judged(lambda: self._validate_update(obj, old))

    def _validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        values, structure = self._schema.on_update(obj, old)
        return self._with_rules(obj, old, (self._validate_type(obj) or values + self._validate_scale(obj)) + structure)

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> Sequence[str]:
        finalizers = obj["metadata"].get("finalizers")
        if not finalizers:
            return ()
        before = set(old["metadata"].get("finalizers") or ()) if old else set()
        warned = (name for name in set(finalizers) - before if _finalizer_warnings(name))
        return [text for name in nsmallest(_MOST_WARNED, warned) for text in _finalizer_warnings(name)]

    def check_context(self, context: Context) -> None:
        self._check_context(context)

    def _judged(self, judge: Callable[[], Verdict]) -> Verdict:
        """The verdict of `judge`, which is called later, in a thread, if the schema's validation is slow."""
        if not self._schema.is_heavy:
            return judge()

        def judged_later(is_given_up: Callable[[], bool]) -> Verdict:
            verdict = judge()
            return verdict if verdict.later is None else verdict.later(is_given_up)

        return Verdict([], later=judged_later)

    def _with_rules(self, obj: JSONObject, old: JSONObject | None, problems: list[FieldError]) -> Verdict:
        try:
            found = self._schema.on_rules(obj, old, problems, patience=_PATIENCE)
        except OutOfPatienceError:
            return Verdict([], later=partial(self._with_slow_rules, obj, old, problems))
        return Verdict(problems + found.errors, found.warnings)

    def _with_slow_rules(
        self, obj: JSONObject, old: JSONObject | None, problems: list[FieldError], is_given_up: Callable[[], bool]
    ) -> Verdict:
        found = self._schema.on_rules(obj, old, problems, is_given_up=is_given_up)
        return Verdict(problems + found.errors, found.warnings)

    def _validate_type(self, obj: JSONObject) -> list[FieldError]:
        problems = []
        for key, wanted in (("kind", self._info.kind), ("apiVersion", self._info.api_version)):
            if obj.get(key) != wanted:
                problems.append(field.invalid(Path(key), obj.get(key), f"must be {wanted}"))
        return problems

    def _validate_scale(self, obj: JSONObject) -> list[FieldError]:
        if self._scale is None:
            return []
        return _replicas(obj, self._scale.spec_replicas) + self._validate_scale_status(obj)

    def _validate_scale_status(self, obj: JSONObject) -> list[FieldError]:
        if self._scale is None:
            return []
        problems = _replicas(obj, self._scale.status_replicas)
        if self._scale.label_selector:
            try:
                find_string(obj, self._scale.label_selector)
            except NestedError as error:
                problems.append(field.invalid(Path(self._scale.label_selector), "", str(error)))
        return problems


class StatusStrategy(CustomResourceStrategy):
    """The rules for `/status`: only `.status` and managedFields can be written; even labels and annotations are kept."""

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        given = dict(obj)
        obj.clear()
        obj.update(old)
        metadata = dict(old["metadata"])
        metadata.pop("managedFields", None)
        if "managedFields" in given["metadata"]:
            metadata["managedFields"] = given["metadata"]["managedFields"]
        obj["metadata"] = metadata
        if "status" in given:
            obj["status"] = given["status"]
        else:
            obj.pop("status", None)

    def _validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        values, structure = self._schema.on_status(obj, old)
        return self._with_rules(obj, old, (self._validate_type(obj) or values + self._validate_scale_status(obj)) + structure)


def read_fields(paths: Mapping[str, JSONPath]) -> Callable[[JSONObject], Mapping[str, str]]:
    """A function that reads the selectable fields of an object: name (`spec.color`) -> value as Go prints it, '' if missing."""

    def read(obj: JSONObject) -> dict[str, str]:
        values = {}
        for name, path in paths.items():
            found = path.find(obj)
            values[name] = go_text(found[0]) if found and found[0] is not None else ""
        return values

    return read


def _differs(obj: JSONObject, old: JSONObject) -> bool:
    """Whether anything but metadata has changed, which increments the generation."""
    new = {key: value for key, value in obj.items() if key != "metadata"}
    before = {key: value for key, value in old.items() if key != "metadata"}
    return not codec.same(new, before)


def _replicas(obj: JSONObject, path: str) -> list[FieldError]:
    try:
        value = find_integer(obj, path)
    except NestedError as error:
        return [field.invalid(Path(path), 0, str(error))]
    if value is None:
        return []
    if value < 0:
        return [field.invalid(Path(path), value, "should be a non-negative integer")]
    if value > _MAX_INT32:
        return [field.invalid(Path(path), value, f"should be less than or equal to {_MAX_INT32}")]
    return []


def _finalizer_warnings(name: str) -> list[str]:
    texts = [f"metadata.finalizers: {field.quote(name)}: {problem}" for problem in object_meta.qualified_name(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        path = " including a path (/)" if "." in name else ""
        texts.append(
            f"metadata.finalizers: {field.quote(name)}: prefer a domain-qualified finalizer name{path} "
            "to avoid accidental conflicts with other finalizer writers"
        )
    return texts
