"""CompiledSchema: pruning, defaulting and validation under the schema of one version.

Each part is compiled at first use, so a part that no request needs is never compiled. A request body is conformed first (pruned,
its metadata coerced to ObjectMeta, defaulted); the object about to be written is validated; an object stored under another
schema is conformed when it is read. docs/schema.md follows a value through all of it.
Pure. The handlers call `conform`, `registry/custom_resource.py` the `on_*` methods, and the store `conform_stored` and
`prune_converted`.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go (unstructuredSchemaCoercer, unstructuredDefaulter)
and pkg/registry/customresource/{strategy,status_strategy}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from aggserver.meta import field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONObject
from aggserver.schema import defaulting, internal, list_type, pruning, structural
from aggserver.schema.defaults import prune_defaults
from aggserver.schema.lazy_rules import compile_validator
from aggserver.schema.object_meta import drop_malformed_resources, prune_object_meta, validate_resources
from aggserver.schema.ratcheting import Correlation
from aggserver.schema.rules import UPSTREAM, RuleFindings, RuleOptions, RuleValidator
from aggserver.schema.validation import validate
from aggserver.schema.validity import Validity
from aggserver.scheme import object_meta

__all__ = ["CompiledSchema", "Findings"]

_STATUS = Path("status")
# Nodes of a heavy schema; the largest schemas in use have about as many. Validating a value against a node takes some
# microseconds.
_HEAVY = 10_000

# With errors of these kinds, rules are not evaluated: they rely on values that match the schema.
_BLOCKING = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)


class Findings(NamedTuple):
    """The errors of an object, in two parts, since upstream reports other errors between them.

    values: errors under the schema as written. structure: errors of embedded resources, and of lists of type set and map.
    """

    values: list[FieldError]
    structure: list[FieldError]


class CompiledSchema:
    """schema: openAPIV3Schema of one version, for which `structural.problems` returns nothing.

    max_object_bytes: the limit of defaulting, see `defaulting.default`.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        rule_options: RuleOptions = UPSTREAM,
        max_object_bytes: int = defaulting.MAX_OBJECT_BYTES,
    ) -> None:
        self._schema = schema
        self._rule_options = rule_options
        self._max_object_bytes = max_object_bytes
        self._is_valid = Validity()

    # --- conforming ---

    def conform(self, obj: JSONObject) -> list[str]:
        """Prune and default a request body; return the paths of the dropped fields.

        Mutates `obj`, whose own metadata must be well-formed. Raises pruning.MalformedError for an embedded resource whose
        metadata is not, and ObjectTooLarge if the defaults would exceed the limit.
        """
        dropped = self.prune_converted(obj)
        self._default(obj)
        return dropped

    def default(self, obj: JSONObject) -> None:
        """Default without pruning: nulls that are not allowed are kept, for validation. Mutates `obj`. Raises ObjectTooLarge."""
        self._default(obj)

    def prune_converted(self, obj: JSONObject) -> list[str]:
        """As `conform`, without defaulting, for a converted object: it was defaulted before conversion."""
        dropped = self._prune(obj)
        metadata = obj.get("metadata")
        return prune_object_meta(metadata) + dropped if isinstance(metadata, dict) else dropped

    def conform_stored(self, obj: JSONObject) -> None:
        """Conform a stored object, whatever it has: metadata that can't be decoded is dropped, a missing generation becomes 1.

        Raises ObjectTooLarge, as `conform` does.
        """
        metadata = obj["metadata"]
        object_meta.drop_malformed(metadata)
        # No member of a clean object is malformed.
        if not self._prune.is_clean(obj):
            drop_malformed_resources(obj, self.structural)
            pruning.prune(obj, self.structural)
        prune_object_meta(metadata)
        self._default(obj)
        metadata.setdefault("generation", 1)

    # --- validating ---

    def on_create(self, obj: JSONObject) -> Findings:
        if self._is_valid(obj, self._schema):
            return Findings([], [])
        structure = validate_resources(obj, self.structural) + list_type.duplicates(obj, self.structural)
        return Findings(validate(obj, self._schema, passes=self._is_valid), structure)

    def on_update(self, obj: JSONObject, old: JSONObject) -> Findings:
        """Validate with ratcheting: errors of unchanged values are dropped, and so are duplicates if there were some before."""
        if self._is_valid(obj, self._schema):
            return Findings([], [])
        correlation = Correlation(obj, old, self.structural)
        values = validate(obj, self._schema, correlation=correlation, passes=self._is_valid)
        return Findings(values, validate_resources(obj, self.structural) + self._new_duplicates(obj, old))

    def on_status(self, obj: JSONObject, old: JSONObject) -> Findings:
        """Validate `.status` alone, since nothing else can have changed; paths in the error texts start at `status`."""
        if self._is_valid(obj, self._schema):
            return Findings([], [])
        schema = (self._schema.get("properties") or {}).get("status")
        values = []
        if schema is not None and "status" in obj:
            correlation = Correlation(obj["status"], old.get("status"), self.structural.properties["status"])
            values = validate(obj["status"], schema, _STATUS, correlation, self._is_valid)
        return Findings(values, self._new_duplicates(obj, old))

    def on_rules(
        self,
        obj: JSONObject,
        old: JSONObject | None,
        problems: list[FieldError],
        *,
        patience: int | None = None,
        is_given_up: Callable[[], bool] | None = None,
    ) -> RuleFindings:
        """Evaluate the rules for an object, after all other validation, whose errors are `problems`. old: None on create.

        patience, is_given_up, OutOfPatienceError: see RuleValidator.validate.
        """
        if self._rules is None:
            return RuleFindings([], [])
        if any(problem.reason in _BLOCKING for problem in problems):
            why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
            return RuleFindings([field.invalid(Path(), None, f"{why} validation")], [])
        correlation = None if old is None else Correlation(obj, old, self.structural)
        return self._rules.validate(obj, old, correlation, patience=patience, is_given_up=is_given_up)

    def _new_duplicates(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        found = list_type.duplicates(obj, self.structural)
        return [] if found and list_type.duplicates(old, self.structural) else found

    # --- compiled parts ---

    @cached_property
    def is_heavy(self) -> bool:
        """Whether the schema has so many nodes that even a small value may take long, since all alternatives check a value."""
        return sum(1 for _ in islice(internal.nodes(self._schema), _HEAVY)) == _HEAVY

    def prepare(self) -> None:
        """Compile the parts that every request body needs, before the first one comes."""
        _ = self._prune, self._default, self._rules

    @cached_property
    def structural(self) -> structural.Structural:
        return prune_defaults(structural.compile(self._schema))

    @cached_property
    def _rules(self) -> RuleValidator | None:
        return compile_validator(self.structural, self._rule_options)

    @cached_property
    def _prune(self) -> pruning.Pruner:
        return pruning.Pruner(self.structural)

    @cached_property
    def _default(self) -> Callable[[JSONObject], None]:
        return defaulting.compile_defaulter(self.structural, self._max_object_bytes)
