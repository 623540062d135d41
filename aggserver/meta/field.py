"""Field paths and field errors.

`Path` builds the text that clients see (`spec.versions[0].name`, `metadata.labels[app]`); `FieldError` is one error, with exactly
upstream's text, since users and tests match on it. Validation collects all errors, not only the first.
Pure. Source: k8s.io/apimachinery pkg/util/validation/field/{path,errors}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aggserver.meta.golang import format_float, quote, to_json

__all__ = [
    "OMITTED",
    "FieldError",
    "Path",
    "RawJSON",
    "duplicate",
    "first_that_fit",
    "forbidden",
    "internal_error",
    "invalid",
    "not_supported",
    "quote",
    "required",
    "too_long",
    "too_many",
    "type_invalid",
]

# The most bytes of error texts for one object in a response. Upstream's response for 200,000 invalid items has 33 MB, and a body
# may have 300,000 unknown fields below a key of 100 KB.
_MAX_BYTES = 512 * 1024


class Path:
    """A path to a field of an object. Immutable; `str()` is the text. The empty path prints as `<nil>`, as Go's nil path does.

    The text is built on demand: a walk makes a path for each part of a value, but only few have errors. A key may be as long as a
    body, and would be repeated in the texts of all paths below it.
    """

    __slots__ = ("_parent", "_part")

    def __init__(self, text: str = "", parent: Path | None = None) -> None:
        self._parent = parent
        self._part = text

    @property
    def text(self) -> str:
        parts = []
        path: Path | None = self
        while path is not None:
            parts.append(path._part)
            path = path._parent
        return "".join(reversed(parts))

    def child(self, *names: str) -> Path:
        name = ".".join(names)
        return Path("." + name, self) if self._part or self._parent is not None else Path(name)

    def index(self, index: int) -> Path:
        return Path(f"[{index}]", self)

    def key(self, key: str) -> Path:
        return Path(f"[{key}]", self)

    def __str__(self) -> str:
        return self.text or "<nil>"

    def __repr__(self) -> str:
        return f"Path({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


OMITTED = object()
"""In place of an error's value that must not be shown."""

# Reason (JSON) -> the start of the text.
_WORDS = {
    "FieldValueNotFound": "Not found",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "InternalError": "Internal error",
    "FieldValueTypeInvalid": "Invalid value",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error: `str()` is `<field>: <kind>: <value>: <detail>`, `body()` the same without the field."""

    reason: str
    path: Path
    value: Any
    detail: str

    @property
    def field(self) -> str:
        return str(self.path)

    def body(self) -> str:
        words = _WORDS[self.reason]
        text = words if self.value is OMITTED else f"{words}: {_render(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body()}"


class RawJSON(str):
    """JSON text to be shown unchanged, for values whose members have the order of a Go struct."""

    __slots__ = ()


def _render(value: Any) -> str:
    if isinstance(value, RawJSON):
        return str(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float):
        return format_float(value)
    return to_json(value)


def required(path: Path, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", path, OMITTED, detail)


def duplicate(path: Path, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", path, value, "")


def invalid(path: Path, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", path, value, detail)


def type_invalid(path: Path, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", path, value, detail)


def not_supported(path: Path, value: Any, supported: Iterable[str]) -> FieldError:
    """`supported values: "a", "b"`: quoted, in the order given (callers sort if upstream does)."""
    names = ", ".join(map(quote, supported))
    return FieldError("FieldValueNotSupported", path, value, f"supported values: {names}" if names else "")


def forbidden(path: Path, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", path, OMITTED, detail)


def too_long(path: Path, maximum: int) -> FieldError:
    """The error of a value longer than `maximum` bytes; upstream's text says bytes even where it counts characters."""
    unit = "byte" if maximum == 1 else "bytes"
    return FieldError("FieldValueTooLong", path, OMITTED, f"may not be more than {maximum} {unit}")


def too_many(path: Path, actual: int, maximum: int) -> FieldError:
    unit = "item" if maximum == 1 else "items"
    return FieldError("FieldValueTooMany", path, actual, f"must have at most {maximum} {unit}")


def internal_error(path: Path, detail: str) -> FieldError:
    """An error of the server, not of the value."""
    return FieldError("InternalError", path, OMITTED, detail)


def first_that_fit(texts: Iterable[str]) -> list[str]:
    """The first texts, as many as fit into one response, but at least one. `texts` is not read further than needed."""
    fitting: list[str] = []
    left = _MAX_BYTES
    for text in texts:
        fitting.append(text)
        left -= len(text)
        if left < 0:
            break
    return fitting
