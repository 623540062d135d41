"""RulesConverter: runs the rules of a definition on its objects.

First all expressions of the changes are evaluated on the object as it is. Then the old fields are removed, the deepest first, and
the new ones are written, the shallowest first. So the order of changes has no meaning: fields can be swapped, and `.spec.old` can
be moved out of `.spec` while `.spec` itself is moved. Of metadata, only labels and annotations are changed. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from aggserver.cel.extent import extent
from aggserver.cel.values import MISSING, CELError, CostExceeded, Optional
from aggserver.conversion.converter import ComputedConverter, ConversionError, TakesLong
from aggserver.conversion.field_path import FieldPath, put, read, take
from aggserver.conversion.rule_compilation import METADATA_KEPT, Compiled, ConversionPlan, ConversionStep, RuleExpression
from aggserver.conversion.rule_types import STRING, UnfitError, describe, fits, json_value
from aggserver.conversion.rules import RuleKind
from aggserver.meta import codec
from aggserver.meta.errors import ObjectTooLarge
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONObject
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.defaulting import MAX_OBJECT_BYTES
from aggserver.schema.pruning import MalformedError
from aggserver.schema.rule_values import unwrapped
from aggserver.scheme.object_meta import are_too_long, validate_labels

__all__ = ["OBJECT_LIMIT", "RulesConverter"]

OBJECT_LIMIT = 1_000_000
"""The cost limit of all expressions for one object, to be multiplied by the budget. It is upstream's for one evaluation of a
rule, since a conversion runs for every object of a list. Each element of a result costs 1, too."""

# What a conversion may cost in the event loop: some milliseconds.
_PATIENCE = 10_000


class RulesConverter(ComputedConverter):
    """what: the kind of the objects, for errors. schemas: of all versions, by name. observe_cost: called with each cost.
    max_object_bytes: the limit for the results of all expressions for one object, as JSON.

    Results have only fields of their version, since field managers use them without pruning. Between the two conversions through
    a hub, an object gets the defaults of the hub, as if it had been stored in that version.
    """

    def __init__(
        self,
        what: str,
        compiled: Compiled,
        schemas: Mapping[str, CompiledSchema],
        budget: int = 1,
        observe_cost: Callable[[int], None] = lambda cost: None,
        max_object_bytes: int = MAX_OBJECT_BYTES,
    ) -> None:
        self._what = what
        self._compiled = compiled
        self._schemas = schemas
        self._limit = OBJECT_LIMIT * budget
        self._observe_cost = observe_cost
        self._max_object_bytes = max_object_bytes

    def at_once(self, obj: JSONObject, api_version: str) -> JSONObject:
        """The object in another version. `obj` may be changed. Raises ConversionError, which names the change that failed."""
        return self._converted(obj, api_version, patience=None)

    def quickly(self, obj: JSONObject, api_version: str) -> JSONObject:
        """See `ComputedConverter`."""
        return self._converted(obj, api_version, patience=_PATIENCE)

    def _converted(self, obj: JSONObject, api_version: str, patience: int | None) -> JSONObject:
        group, _, to = api_version.rpartition("/")
        from_ = str(obj.get("apiVersion")).rpartition("/")[2]
        if from_ == to:
            return obj
        for version in (from_, to):
            if version not in self._schemas:
                raise ConversionError(f"conversion of {self._what} from {from_} to {to} failed: there is no version {version}")
        for number, plan in enumerate(self._compiled.route(from_, to)):
            run = _Run(self._limit, self._max_object_bytes, patience)
            try:
                if number:
                    self._schemas[plan.conversion.from_].default(obj)
                run.convert(plan.steps, obj)
                _check_metadata(plan, obj)
                for path in plan.surplus:
                    take(obj, path, len(path.parts))
                self._schemas[plan.conversion.to].prune_converted(obj)
            except (_FailedError, MalformedError, ObjectTooLarge) as error:
                conversion = plan.conversion
                what = f"conversion of {self._what} from {conversion.from_} to {conversion.to} failed"
                raise ConversionError(f"{what}: {error}") from None
            finally:
                self._observe_cost(self._limit - run.left)
            obj["apiVersion"] = f"{group}/{plan.conversion.to}"
        return obj


class _FailedError(Exception):
    """A change failed; `str()` names it and says why."""


class _Run:
    """The conversion of one object. limit: of the cost of all expressions. most_bytes: of the results of all expressions.
    patience: the cost after which TakesLong is raised; None for never.
    """

    def __init__(self, limit: int, most_bytes: int, patience: int | None) -> None:
        self.left = limit
        self._most_bytes = self._room = most_bytes
        self._patience = patience

    def convert(self, steps: Sequence[ConversionStep], obj: JSONObject) -> None:
        """Run the steps on an object, or on an item of a list, in place."""
        active = [(step, self._value(step, obj)) for step in steps if self._is_active(step, obj)]
        taken = {}
        for step, _ in sorted(active, key=lambda each: -len(_taken_path(each[0]).parts)):
            taken[id(step)] = self._take(step, obj)
        writes = [(_written_path(step), self._new(step, value, taken[id(step)])) for step, value in active]
        for path, value in sorted(writes, key=lambda each: len(each[0].parts)):
            if value is not MISSING:
                put(obj, path, value)

    def _is_active(self, step: ConversionStep, obj: JSONObject) -> bool:
        if step.when is None:
            return True
        result = self._evaluate(step.when, step, obj, "when")
        if result is MISSING:
            return False
        if type(result) is not bool:
            raise _FailedError(f"{_name(step, 'when')}: must evaluate to a bool")
        return result

    def _value(self, step: ConversionStep, obj: JSONObject) -> Any:
        """The result of the step's expression; MISSING without one, for optional.none(), and if a needed field is absent."""
        if step.value is None:
            return MISSING
        result = self._evaluate(step.value, step, obj, "value")
        if isinstance(result, Optional):
            if not result.present:
                return MISSING
            result = result.value
        if result is MISSING:
            return MISSING
        try:
            self._count(result, step)
            value = json_value(result)
        except (UnfitError, CELError) as error:
            raise _FailedError(f"{_name(step, 'value')}: {error}") from None
        if not fits(value, step.target):
            raise _FailedError(f"{_name(step, 'value')}: the field is {describe(step.target)}, which the result does not fit")
        return value

    def _count(self, result: Any, step: ConversionStep) -> None:
        """Charge for a result before it is written out as JSON: a list of CEL can contain the same list many times."""
        found = extent(result, self._room, self._allowance, unwrapped)
        self._spend(found.elements)
        self._room -= found.bytes
        if self._room < 0:
            why = f"what the expressions make of one object is larger than {self._most_bytes} bytes"
            raise _FailedError(f"{_name(step, 'value')}: {why}")
        if self.left < 0:
            raise _exceeded(step, "value")

    @property
    def _allowance(self) -> int:
        """The cost that may still be spent now."""
        return self.left if self._patience is None else min(self.left, self._patience)

    def _spend(self, cost: int) -> None:
        self.left -= cost
        self._wait(cost)

    def _wait(self, cost: int) -> None:
        """Charge a cost to the patience only. Raises TakesLong."""
        if self._patience is not None:
            self._patience -= cost
            if self._patience < 0:
                raise TakesLong

    def _evaluate(self, expression: RuleExpression, step: ConversionStep, obj: JSONObject, member: str) -> Any:
        """The expression's result; MISSING if the object does not have a field that it needs."""
        if any(read(obj, path) is MISSING for path in expression.needs):
            return MISSING
        limit = self._allowance
        try:
            result, cost = expression.program({"self": obj}, limit)
        except CostExceeded:
            if limit < self.left:
                raise TakesLong from None
            raise _exceeded(step, member) from None
        except CELError as error:
            raise _FailedError(f"{_name(step, member)}: {error}") from None
        self._spend(cost)
        return result

    def _take(self, step: ConversionStep, obj: JSONObject) -> Any:
        """Remove the value that the step moves, removes or replaces, and return it."""
        change = step.change
        if change.kind is RuleKind.EACH and change.to is None:
            return read(obj, change.field)
        if change.kind is RuleKind.SAVE:
            # Without the field, a value saved by an earlier conversion is stale.
            take(obj, change.annotation_path, METADATA_KEPT)
        elif change.kind is RuleKind.RESTORE:
            return self._restored(step, obj)
        return take(obj, change.field, step.kept)

    def _restored(self, step: ConversionStep, obj: JSONObject) -> Any:
        """Remove and return the value in the annotation. If it does not fit, as after a change by a client, it is left there."""
        path = step.change.annotation_path
        text = read(obj, path)
        with suppress(codec.DecodeError):
            value = codec.decode_json(text.encode()) if isinstance(text, str) else MISSING
            if value is not MISSING and fits(value, step.target):
                take(obj, path, METADATA_KEPT)
                return value
        return MISSING

    def _new(self, step: ConversionStep, value: Any, taken: Any) -> Any:
        """The value to write; MISSING for none."""
        match step.change.kind:
            case RuleKind.SET:
                return value
            case RuleKind.MOVE | RuleKind.RESTORE:
                if type(taken) is not str and taken is not MISSING and step.target is STRING:
                    # Only in an object that was stored under another schema: labels and annotations are strings.
                    raise _FailedError(f"{step.change.path} ({step.change}): must be a string")
                return taken
            case RuleKind.SAVE:
                return MISSING if taken is MISSING else codec.encode_json(taken).decode()
            case RuleKind.EACH:
                items = taken if type(taken) is list else taken.values() if type(taken) is dict else ()
                for item in items:
                    self._wait(1 + len(step.steps))
                    if type(item) is dict:
                        self.convert(step.steps, item)
                return taken
            case _:
                return MISSING


def _taken_path(step: ConversionStep) -> FieldPath:
    return step.change.annotation_path if step.change.kind is RuleKind.RESTORE else step.change.field


def _written_path(step: ConversionStep) -> FieldPath:
    return step.change.annotation_path if step.change.kind is RuleKind.SAVE else step.change.to or step.change.field


def _exceeded(step: ConversionStep, member: str) -> _FailedError:
    return _FailedError(f"{_name(step, member)}: the expressions of one object exceed the cost limit")


def _name(step: ConversionStep, member: str) -> str:
    return f"{step.change.path.child(member)} ({step.change})"


def _check_metadata(plan: ConversionPlan, obj: JSONObject) -> None:
    """Labels and annotations that rules have written must be valid, as upstream requires of what a webhook returns."""
    if not any(_written_path(step).parts[0] == "metadata" for step in plan.steps):
        return
    metadata = obj.get("metadata") or {}
    problems = validate_labels(metadata.get("labels") or {}, Path("metadata.labels"))
    if problems:
        raise _FailedError(f"{plan.conversion.path}: {problems[0]}")
    if are_too_long(metadata.get("annotations") or {}):
        raise _FailedError(f"{plan.conversion.path}: metadata.annotations would be too long")
