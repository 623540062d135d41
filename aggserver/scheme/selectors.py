"""Validation of selectors: meta/v1 LabelSelector, and the requirements of label and field selectors.

The functions expect objects that fit their types.
Pure. Source: k8s.io/apimachinery pkg/apis/meta/v1/validation/validation.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from aggserver.meta.field import FieldError, Path, forbidden, invalid, required
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import label_value, qualified_name
from aggserver.scheme.object_meta import validate_labels

__all__ = ["field_requirement", "label_requirement", "label_selector"]

Errors = Iterator[FieldError]


def label_selector(selector: JSONMapping, path: Path, *, any_values: bool = False) -> Errors:
    """The errors of a meta/v1 LabelSelector. any_values: whether values need not be label values, as in old objects."""
    yield from validate_labels(selector.get("matchLabels") or {}, path.child("matchLabels"))
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        yield from label_requirement(expression, path.child("matchExpressions").index(index), any_values=any_values)


def label_requirement(requirement: JSONMapping, path: Path, *, any_values: bool = False, any_operator: bool = False) -> Errors:
    """The errors of a requirement. any_values: see `label_selector`. any_operator: whether unknown operators are valid."""
    yield from _operator(requirement, path, any_operator=any_operator)
    key = requirement.get("key") or ""
    yield from (invalid(path.child("key"), key, text) for text in qualified_name(key))
    if not any_values:
        for index, value in enumerate(requirement.get("values") or ()):
            yield from (invalid(path.child("values").index(index), value, text) for text in label_value(value))


def field_requirement(requirement: JSONMapping, path: Path, *, any_operator: bool = False) -> Errors:
    """The errors of a requirement of a field selector. any_operator: see `label_requirement`."""
    if not requirement.get("key"):
        yield required(path.child("key"), "must be specified")
    yield from _operator(requirement, path, any_operator=any_operator)


def _operator(requirement: JSONMapping, path: Path, *, any_operator: bool) -> Errors:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            yield required(path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(path.child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif not any_operator:
        yield invalid(path.child("operator"), operator, "not a valid selector operator")
