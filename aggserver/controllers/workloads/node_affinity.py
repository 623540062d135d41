"""Whether a node is one that a Pod requires, by its nodeSelector and its node affinity.

Pure. Source: k8s.io/component-helpers scheduling/corev1/nodeaffinity/nodeaffinity.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aggserver.meta.json_types import JSONMapping

__all__ = ["is_required", "required_terms"]

_DIGITS = 19  # of the largest int64


def required_terms(spec: JSONMapping) -> list[JSONMapping] | None:
    """The terms of a PodSpec's required node affinity, one of which must match; None if it has none."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else list(required.get("nodeSelectorTerms") or ())


def is_required(spec: JSONMapping, node: JSONMapping) -> bool:
    """Whether the Pod may run on the node as far as these two decide."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    if not labels.items() >= (spec.get("nodeSelector") or {}).items():
        return False
    terms = required_terms(spec)
    return terms is None or any(_matches(term, labels, {"metadata.name": node["metadata"]["name"]}) for term in terms)


def _matches(term: JSONMapping, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    """Whether all of a term holds. One without anything matches no node."""
    expressions, of_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not of_fields:
        return False
    return all(_holds(each, labels) for each in expressions) and all(_holds(each, fields) for each in of_fields)


def _holds(requirement: JSONMapping, found: Mapping[str, str]) -> bool:
    value, operator = found.get(requirement["key"]), str(requirement["operator"])
    values: Sequence[str] = requirement.get("values") or ()
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    if operator == "NotIn":
        return value not in values
    if value is None:
        return False
    if operator == "In":
        return value in values
    numbers = [_number(value), *map(_number, values)]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        return False
    return numbers[0] > numbers[1] if operator == "Gt" else numbers[0] < numbers[1]


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS else None
