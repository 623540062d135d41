"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386), with the deviations of the library that kube-apiserver uses.

Nothing is changed in place: containers on the way to a change are copied, the rest of the old object is shared with the new one.
The result shares nothing with the patch, so that the patch can be applied again to another object, even if the first result was
changed.
Called by `endpoints/handlers/patch.py`, which maps `InvalidPatch` to 400, `TooManyOperations` to 413, and `JsonPatchError` to 422
with `errors.patch_rejected()` (the text of a JsonPatchError is upstream's, and only admission shows it). Pure.
Source: gopkg.in/evanphx/json-patch.v4 v4.13.0 (patch.go, merge.go); k8s.io/apiserver pkg/endpoints/handlers/patch.go, v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aggserver.meta import codec
from aggserver.meta.golang import json_kind, quote
from aggserver.meta.json_types import json_copy
from aggserver.scheme import strict
from aggserver.scheme.types import Member, Type

__all__ = [
    "InvalidPatch",
    "JsonPatchError",
    "PatchOperation",
    "TestFailedError",
    "TooManyOperations",
    "apply_json_patch",
    "as_written",
    "complaints",
    "decode",
    "merge_patch",
    "metadata_named",
    "parse_json_patch",
    "parse_merge_patch",
]

MAX_OPERATIONS = 10_000
# Bytes that the `copy` operations of one patch may add, counted as JSON; the limit of a request body.
MAX_COPIED_BYTES = 3 * 1024 * 1024
# The most items of lists that the operations of one patch may move, to make room or to close a gap: about a second's work. It is
# enough for the most operations of a patch (10,000) at the front of a list of 100,000 items. Upstream has no limit.
MAX_MOVED_ITEMS = 1_000_000_000
_STRING = Type("string", "string")
# Go's type of an operation, by which a strict decoder checks it.
_OPERATION = Type(
    "handlers.jsonPatchOp",
    "struct",
    members={
        name: Member(name, name.capitalize(), of, number=0, pointer=False, omitempty=False)
        for name, of in {"op": _STRING, "from": _STRING, "path": _STRING, "value": strict.ANY}.items()
    },
)
_PATCH = Type(f"[]{_OPERATION.name}", "list", _OPERATION)
_METADATA = "/metadata/"
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")


class InvalidPatch(ValueError):
    """The body is no patch of its kind: 400."""


class TooManyOperations(ValueError):
    """Over 10,000 operations: 413."""


class JsonPatchError(ValueError):
    """The patch does not apply to this object: 422."""


class TestFailedError(JsonPatchError):
    """A `test` operation failed."""


@dataclass(frozen=True, slots=True)
class PatchOperation:
    """One step of a JSON patch. `path` and `from_path` are None if not given, which is an error for some operations only."""

    op: str
    path: str | None = None
    from_path: str | None = None
    value: Any = None


def metadata_named(patch: Any) -> set[str]:
    """The members of metadata that a decoded patch of either kind names; none if it also names other parts of the object."""
    if isinstance(patch, dict):
        metadata = patch.get("metadata")
        return set(metadata) if patch.keys() == {"metadata"} and isinstance(metadata, dict) else set()
    named: set[str] = set()
    for operation in patch if isinstance(patch, list) else ():
        if not isinstance(operation, dict):
            return set()
        for path in [operation.get("path"), *(operation[key] for key in ("from",) if key in operation)]:
            if not isinstance(path, str) or not path.startswith(_METADATA):
                return set()
            named.add(path.removeprefix(_METADATA).partition("/")[0])
    return named


# --- merge patch ---


def decode(body: bytes) -> tuple[Any, bool]:
    """(the decoded patch, whether the text alone proves that no key is repeated). Raises InvalidPatch."""
    try:
        return codec.decode_checking_keys(body)
    except codec.DecodeError as error:
        raise InvalidPatch(f"error decoding patch: {error}") from None


def parse_merge_patch(patch: Any) -> dict[str, Any]:
    """The patch, if it is an object, as a merge patch of an object must be. Raises InvalidPatch otherwise."""
    if patch is None:
        raise InvalidPatch("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise InvalidPatch(
            f"error decoding patch: json: cannot unmarshal {json_kind(patch)} into Go value of type map[string]interface {{}}"
        )
    return patch


def merge_patch(target: Any, patch: Any) -> Any:
    """The patched target. Members that are null in the patch are removed; everything but an object is replaced as a whole.

    As upstream, and beyond the RFC: in a value that the patch adds, or that replaces a value other than an object, null members
    of objects inside of arrays are dropped too.
    """
    if not isinstance(patch, dict):
        return json_copy(patch) if isinstance(target, dict) else _without_nulls(patch)
    if not isinstance(target, dict):
        return _without_nulls(patch)
    merged = dict(target)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif merged.get(key) is None:
            merged[key] = _without_nulls(value)
        else:
            merged[key] = merge_patch(merged[key], value)
    return merged


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(member) for member in value]
    return value


# --- JSON patch: reading ---


def parse_json_patch(given: Any) -> list[PatchOperation]:
    """The operations of a decoded patch. Raises InvalidPatch, TooManyOperations. Unknown operations and missing members are
    found only when the patch is applied.
    """
    if given is None:
        return []
    if not isinstance(given, list):
        raise InvalidPatch(f"error decoding patch: {_mismatch(given, 'Go value of type []handlers.jsonPatchOp')}")
    if len(given) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(given)}"
        raise TooManyOperations(text)
    return [_operation(entry) for entry in given]


def complaints(body: bytes, given: Any, *, nothing_repeated: bool) -> list[str]:
    """The errors of a strict decoder for a JSON patch. given, nothing_repeated: the result of `decode`.

    `parse_json_patch` must have accepted it.
    """
    if nothing_repeated and all(entry is None or entry.keys() <= _OPERATION.members.keys() for entry in given or ()):
        return []
    return strict.complaints(body, _PATCH)


def as_written(document: Any, operations: Sequence[PatchOperation]) -> Any:
    """A patched object with its members in upstream's order: objects on the way to a change are sorted by key, others not."""
    touched: dict[str, Any] = {}
    for operation in operations:
        for pointer in filter(None, (operation.path, operation.from_path)):
            inner = touched
            for part in pointer.split("/")[1:-1]:
                inner = inner.setdefault(_unescape(part), {})
    return _sorted_along(document, touched)


def _sorted_along(value: Any, touched: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _sorted_along(value[key], touched[key]) if key in touched else value[key] for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted_along(item, touched[str(at)]) if str(at) in touched else item for at, item in enumerate(value)]
    return value


def _operation(entry: Any) -> PatchOperation:
    if entry is None:
        return PatchOperation("unknown")
    if not isinstance(entry, dict):
        raise InvalidPatch(f"error decoding patch: {_mismatch(entry, 'Go value of type handlers.jsonPatchOp')}")
    for key in ("op", "path", "from"):
        value = entry.get(key)
        if value is not None and not isinstance(value, str):
            raise InvalidPatch(f"error decoding patch: {_mismatch(value, f'Go struct field jsonPatchOp.{key} of type string')}")
    return PatchOperation(entry.get("op") or "unknown", entry.get("path"), entry.get("from"), entry.get("value"))


def _mismatch(value: Any, wanted: str) -> str:
    return f"json: cannot unmarshal {json_kind(value)} into {wanted}"


# --- JSON patch: applying ---


def apply_json_patch(document: Any, operations: Sequence[PatchOperation]) -> Any:
    """The patched document, which may be any JSON value. Raises JsonPatchError if any operation does not apply.

    The result is no larger than the document, the patch and MAX_COPIED_BYTES together, and can always be encoded: values that
    move and copy have nested too deeply are an error. At most MAX_MOVED_ITEMS items of lists are moved.
    """
    patched = _Document(document)
    for operation in operations:
        apply = _OPERATIONS.get(operation.op)
        if apply is None:
            raise JsonPatchError(f"Unexpected kind: {operation.op}")
        apply(patched, operation)
    _encoded(patched.root)
    return patched.root


def _encoded(value: Any) -> bytes:
    """The value as JSON. Raises JsonPatchError if it is nested too deeply."""
    try:
        return codec.encode_json(value)
    except TypeError:
        raise JsonPatchError("the patched document is nested too deeply") from None


class _Document:
    """The document while it is being patched. Containers in `_own` were made here and may be changed."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.copied = 0
        self._moved = 0
        # By id. The container is kept, so that its id is not reused.
        self._own: dict[int, Any] = {}

    def parent(self, path: str | None, operation: str, where: str, *, change: bool) -> tuple[Any, str]:
        """The container that holds the last part of `path`, and that part. change: return a container that may be changed.

        where: the text before the path in an error.
        """
        if path is None:
            raise JsonPatchError(f"{operation} operation failed to decode path: missing value")
        parts = path.split("/")
        if change and len(parts) > 1:
            self.root = self._owned(self.root)
        # The text before the first slash is ignored.
        current = self.root if len(parts) > 1 else None
        for part in parts[1:-1]:
            key: Any = _unescape(part)
            try:
                key = _index(key, len(current)) if isinstance(current, list) else key
                below = current[key]  # type: ignore[index]
            except (KeyError, TypeError, JsonPatchError):
                current = None
                break
            if change:
                below = current[key] = self._owned(below)  # type: ignore[index]
            current = below
        if not isinstance(current, dict | list):
            raise JsonPatchError(f"{operation} operation does not apply: {where}{_quoted(path, operation)}: missing value")
        return current, _unescape(parts[-1])

    def _owned(self, container: Any) -> Any:
        if id(container) in self._own or not isinstance(container, dict | list):
            return container
        fresh = container.copy()
        self._own[id(fresh)] = fresh
        return fresh

    def put(self, container: Any, key: str, value: Any) -> None:
        """Add a member, or insert an item before the one with that index."""
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        elif not _INDEX.fullmatch(key):
            raise JsonPatchError(
                f"value was not a proper array index: '{key}': strconv.Atoi: parsing {quote(key)}: invalid syntax"
            )
        else:
            # One more place than there are items, also when counted from the end.
            index = _index(key, len(container) + 1)
            self._move(len(container) - index)
            container.insert(index, value)

    def drop(self, container: Any, key: str) -> None:
        if isinstance(container, list):
            index = _index(key, len(container))
            self._move(len(container) - index)
            del container[index]
        elif key in container:
            del container[key]
        else:
            raise JsonPatchError(f"Unable to remove nonexistent key: {key}: missing value")

    def _move(self, items: int) -> None:
        self._moved += items
        if self._moved > MAX_MOVED_ITEMS:
            raise JsonPatchError(f"Unable to complete the patch, the items moved in arrays exceed the limit {MAX_MOVED_ITEMS}")


def _quoted(path: str, operation: str) -> str:
    return f'"{path}"' if operation in ("add", "remove") else path


def _unescape(part: str) -> str:
    # Both at once: `~01` is `~1`.
    return part if "~" not in part else re.sub("~[01]", lambda match: "/" if match[0] == "~1" else "~", part)


def _index(key: str, size: int) -> int:
    """The index that a key means. As in upstream's library, which is laxer than the RFC, negative ones count from the end, and
    signs and leading zeros are allowed. Raises JsonPatchError.
    """
    if not _INDEX.fullmatch(key):
        raise JsonPatchError(f"strconv.Atoi: parsing {quote(key)}: invalid syntax")
    index = int(key)
    if not -size <= index < size:
        raise JsonPatchError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + size if index < 0 else index


def _get(container: Any, key: str) -> Any:
    """A member or item. A missing member is null; a missing item is an error."""
    return container[_index(key, len(container))] if isinstance(container, list) else container.get(key)


@contextmanager
def _doing(what: str) -> Iterator[None]:
    """Put `what` was being done before the text of an error."""
    try:
        yield
    except JsonPatchError as error:
        raise JsonPatchError(f"{what}: {error}") from None


_PATH, _FROM, _DESTINATION = "doc is missing path: ", "doc is missing from path: ", "doc is missing destination path: "


def _add(document: _Document, operation: PatchOperation) -> None:
    container, key = document.parent(operation.path, "add", _PATH, change=True)
    with _doing(f"error in add for path: '{operation.path}'"):
        document.put(container, key, json_copy(operation.value))


def _remove(document: _Document, operation: PatchOperation) -> None:
    container, key = document.parent(operation.path, "remove", _PATH, change=True)
    with _doing(f"error in remove for path: '{operation.path}'"):
        document.drop(container, key)


def _replace(document: _Document, operation: PatchOperation) -> None:
    if operation.path == "":
        if not isinstance(operation.value, dict | list):
            raise JsonPatchError("replace operation value must be object or array: %!w(<nil>)")
        document.root = json_copy(operation.value)
        return
    container, key = document.parent(operation.path, "replace", _PATH, change=True)
    if isinstance(container, dict):
        # The member need not be there: upstream's library doesn't look.
        container[key] = json_copy(operation.value)
        return
    try:
        container[_index(key, len(container))] = json_copy(operation.value)
    except JsonPatchError:
        raise JsonPatchError(f"replace operation does not apply: doc is missing key: {operation.path}: missing value") from None


def _move(document: _Document, operation: PatchOperation) -> None:
    container, key = document.parent(operation.from_path, "move", _FROM, change=True)
    with _doing(f"error in move for path: '{key}'"):
        value = _get(container, key)
        document.drop(container, key)
    container, key = document.parent(operation.path, "move", _DESTINATION, change=True)
    with _doing(f"error in move for path: '{operation.path}'"):
        document.put(container, key, value)


def _copy(document: _Document, operation: PatchOperation) -> None:
    container, key = document.parent(operation.from_path, "copy", _FROM, change=False)
    with _doing(f"error in copy for from: '{operation.from_path}'"):
        value = _get(container, key)
    document.parent(operation.path, "copy", _DESTINATION, change=False)
    document.copied += len(_encoded(value)) if value is not None else 0
    if document.copied > MAX_COPIED_BYTES:
        raise JsonPatchError(
            "Unable to complete the copy, the accumulated size increase of copy is "
            f"{document.copied}, exceeding the limit {MAX_COPIED_BYTES}"
        )
    container, key = document.parent(operation.path, "copy", _DESTINATION, change=True)
    with _doing("error while adding value during copy"):
        document.put(container, key, json_copy(value))


def _test(document: _Document, operation: PatchOperation) -> None:
    found = document.root
    if operation.path != "":
        container, key = document.parent(operation.path, "test", "is missing path: ", change=False)
        with _doing(f"error in test for path: '{operation.path}'"):
            found = _get(container, key)
    if not _equal(found, operation.value):
        raise TestFailedError(f"testing value {operation.path} failed: test failed")


def _equal(left: Any, right: Any) -> bool:
    # In Python True equals 1, in JSON it does not.
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(member, right[key]) for key, member in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


_OPERATIONS = {"add": _add, "remove": _remove, "replace": _replace, "move": _move, "copy": _copy, "test": _test}
