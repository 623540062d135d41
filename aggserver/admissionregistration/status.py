"""Validation of the status of a ValidatingAdmissionPolicy, with upstream's texts and paths.

Pure. Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go, v1.36.3; k8s.io/apimachinery
pkg/apis/meta/v1/validation/validation.go (ValidateConditions), v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from aggserver.admissionregistration.matching import Errors, one_of
from aggserver.meta import jsonpath
from aggserver.meta.field import FieldError, Path, duplicate, invalid, required, too_long
from aggserver.meta.golang import trim_space
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import qualified_name

__all__ = ["validate"]

_STATUSES = ("False", "True", "Unknown")
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_is_reason = re.compile(_REASON).fullmatch
_REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or "
    "'_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or "
    f"'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
# In bytes.
_MAX_REASON = 1024
_MAX_MESSAGE = 32 * 1024


def validate(obj: JSONMapping) -> list[FieldError]:
    status, path = obj.get("status") or {}, Path("status")
    warnings = (status.get("typeChecking") or {}).get("expressionWarnings") or []
    return [
        *_expression_warnings(warnings, path.child("typeChecking", "expressionWarnings")),
        *_conditions(status.get("conditions") or [], path.child("conditions")),
    ]


def _expression_warnings(warnings: Sequence[JSONMapping], path: Path) -> Errors:
    for index, warning in enumerate(warnings):
        at = path.index(index)
        if not warning.get("warning"):
            yield required(at.child("warning"))
        reference = trim_space(warning.get("fieldRef") or "")
        if not reference:
            yield required(at.child("fieldRef"))
            continue
        try:
            jsonpath.compile(reference)
        except jsonpath.JSONPathError as error:
            yield invalid(at.child("fieldRef"), reference, f"invalid JSONPath: {error}")


def _conditions(conditions: Sequence[JSONMapping], path: Path) -> Errors:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        type_ = condition.get("type") or ""
        if type_ in seen:
            yield duplicate(path.index(index).child("type"), type_)
        seen.add(type_)
        yield from _condition(condition, path.index(index))


def _condition(condition: JSONMapping, path: Path) -> Errors:
    type_, reason = condition.get("type") or "", condition.get("reason") or ""
    yield from (invalid(path.child("type"), type_, text) for text in qualified_name(type_))
    yield from one_of(condition.get("status") or "", _STATUSES, path.child("status"))
    generation = condition.get("observedGeneration") or 0
    if generation < 0:
        yield invalid(path.child("observedGeneration"), generation, "must be greater than or equal to zero")
    if condition.get("lastTransitionTime") is None:
        yield required(path.child("lastTransitionTime"))
    if not reason:
        yield required(path.child("reason"))
    else:
        if not _is_reason(reason):
            yield invalid(path.child("reason"), reason, _REASON_TEXT)
        if len(reason.encode()) > _MAX_REASON:
            yield too_long(path.child("reason"), _MAX_REASON)
    if len((condition.get("message") or "").encode()) > _MAX_MESSAGE:
        yield too_long(path.child("message"), _MAX_MESSAGE)
