"""Rules of tolerations.

Pure. Source: ValidateTolerations in k8s.io/kubernetes pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aggserver.meta import field, names
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONMapping

__all__ = ["toleration_problems"]

_OPERATORS = ("Equal", "Exists")
# What upstream names for operators that compare numbers, which are off by default.
_ORDERED = (*_OPERATORS, "Lt", "Gt")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MATCHES_ALL = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def toleration_problems(tolerations: Sequence[JSONMapping], path: Path) -> Iterator[FieldError]:
    """The errors of the tolerations of a Pod or a template."""
    for index, toleration in enumerate(tolerations):
        where = path.index(index)
        key, operator, value = (toleration.get(name) or "" for name in ("key", "operator", "value"))
        if key:
            yield from (field.invalid(where.child("key"), key, text) for text in names.qualified_name(key))
        elif operator != "Exists":
            yield field.invalid(where.child("operator"), operator, _MATCHES_ALL)
        effect = toleration.get("effect") or ""
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield field.invalid(where.child("effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        if operator in ("", "Equal"):
            if texts := names.label_value(value):
                yield field.invalid(where.child("operator"), value, ";".join(texts))
        elif operator == "Exists":
            if value:
                yield field.invalid(where.child("operator"), value, "value must be empty when `operator` is 'Exists'")
        else:
            values = _ORDERED if operator in ("Lt", "Gt") else _OPERATORS
            yield field.not_supported(where.child("operator"), operator, values)
        if effect and effect not in _EFFECTS:
            yield field.not_supported(where.child("effect"), effect, _EFFECTS)
