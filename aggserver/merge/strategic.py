"""Strategic merge patch: merges a patch into an object of a kind that has a Go type, whose tags say how lists are merged.

A list with the strategy `merge` is merged by the key of its items, or as a set if they are scalars; every other list is replaced.
Directives in the patch demand other changes: `$patch: delete` and `$patch: replace` in a map, `$retainKeys` for its members,
`$deleteFromPrimitiveList/x` and `$setElementOrder/x` for the list x beside them. kubectl sends such patches for all kinds that
are compiled into it.
Nothing is changed in place; the result may share parts with both arguments. Pure.
Source: k8s.io/apimachinery pkg/util/strategicpatch/patch.go, pkg/util/mergepatch/errors.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aggserver.meta.golang import json_kind, quote
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.scheme.types import Member, Type

__all__ = ["MAX_STEPS", "BadDirectiveError", "StrategicPatchError", "TooCostlyError", "go_text", "strategic_merge"]

# The most members and items, of the object and of the patch together, that one patch may visit. Normally each is visited once or
# twice, and object and patch have about a million each at most. But a patch of 3 MiB may name one item of the object 60,000
# times, and the whole item is merged each time.
MAX_STEPS = 2_000_000

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETIONS = "$deleteFromPrimitiveList/"


class StrategicPatchError(ValueError):
    """The patch can't be merged into the object, which upstream reports as an internal error (500)."""


class BadDirectiveError(StrategicPatchError):
    """A directive has a wrong form (400)."""


class TooCostlyError(ValueError):
    """The patch would visit more than MAX_STEPS members and items."""

    def __init__(self) -> None:
        super().__init__(f"the patch visits more than {MAX_STEPS} members and items")


def strategic_merge(original: JSONMapping, patch: JSONMapping, of: Type) -> JSONObject:
    """The patched object. of: the type of the object. Raises StrategicPatchError, TooCostlyError."""
    return _merged(original, patch, of, _Budget())


class _Budget:
    """The members and items that a patch may still visit."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def take(self, *visited: JSONMapping | Sequence[Any]) -> None:
        """Pay for the members and items of containers, before visiting them. Raises TooCostlyError."""
        self._left -= sum(map(len, visited))
        if self._left < 0:
            raise TooCostlyError


def _merged(original: JSONMapping, patch: JSONMapping, of: Type, steps: _Budget) -> JSONObject:
    if _PATCH in patch:
        return _directed(patch)
    steps.take(original, patch)
    merged, patch = _retained(original, patch)
    patch = dict(patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        order, name = patch.pop(key), key.removeprefix(_ORDER)
        _put_in_order(merged, patch, name, order, of, steps)
        patch.pop(name, None)
    for key, value in patch.items():
        if key.startswith(_DELETIONS):
            name = key.removeprefix(_DELETIONS)
            if value is None:
                merged.pop(name, None)
            elif json_kind(merged.get(name)) == json_kind(value) == "array":
                steps.take(merged[name], value)
                gone = set(map(_identity, value))
                merged[name] = [item for item in merged[name] if _identity(item) not in gone]
        elif value is None:
            merged.pop(key, None)
        elif key in merged:
            _merge_member(merged, key, value, of, steps)
        else:
            _set(merged, key, value)
    return merged


def _directed(patch: JSONMapping) -> JSONObject:
    if patch[_PATCH] == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if patch[_PATCH] == "delete":
        return {}
    raise StrategicPatchError(f"unknown patch type: {patch[_PATCH]} in map: {go_text(patch)}")


def _retained(original: JSONMapping, patch: JSONMapping) -> tuple[JSONObject, JSONMapping]:
    """A copy of the original without the members that `$retainKeys` does not list, and the patch without that directive."""
    if _RETAIN_KEYS not in patch:
        return dict(original), patch
    listed = patch[_RETAIN_KEYS]
    retained = {key for key in listed if isinstance(key, str)} if isinstance(listed, list) else set()
    rest = {key: value for key, value in patch.items() if key != _RETAIN_KEYS}
    named = [key for key, value in rest.items() if value is not None and not key.startswith((_ORDER, _DELETIONS))]
    if not isinstance(listed, list) or any(key not in retained for key in named):
        raise BadDirectiveError("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in retained}, rest


def _merge_member(merged: JSONObject, key: str, value: Any, of: Type, steps: _Budget) -> None:
    kind = json_kind(value)
    if json_kind(merged[key]) != kind or kind not in ("object", "array"):
        _set(merged, key, value)
        return
    member = _member(of, key)
    if kind == "object":
        merged[key] = value if member.merge_strategy == "replace" else _merged(merged[key], value, member.type, steps)
    else:
        merged[key] = _merged_list(merged[key], value, member, steps)


def _set(merged: JSONObject, key: str, value: Any) -> None:
    """Set a member to the patch's value, without nulls and directives."""
    cleaned, kept = _without_directives(_without_nulls(value))
    if kept:
        merged[key] = cleaned
    else:
        merged.pop(key, None)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_without_nulls, value))
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}


def _without_directives(value: Any) -> tuple[Any, bool]:
    """(the value without directives, whether to keep it: a map with `$patch` is dropped)."""
    if isinstance(value, list):
        return [inner for inner, is_kept in map(_without_directives, value) if is_kept], True
    if not isinstance(value, dict):
        return value, True
    if _PATCH in value:
        return None, False
    members = {key: _without_directives(inner) for key, inner in value.items()}
    return {key: inner for key, (inner, is_kept) in members.items() if is_kept}, True


# --- lists ---


def _merged_list(original: Sequence[Any], patch: Sequence[Any], member: Member, steps: _Budget) -> list[Any]:
    steps.take(original, patch)
    if member.merge_strategy != "merge":
        return list(patch)
    if not original and not patch:
        return []
    key = member.merge_key
    if _element_kind(original, patch) != "object":
        merged = list({_identity(item): item for item in [*original, *patch]}.values())
        return _ordered(merged, patch, original, key)
    if not key:
        raise StrategicPatchError("cannot merge lists without merge key for struct")
    assert member.type.element is not None
    original, patch = _without_special_items(original, patch, key)
    return _ordered(_merged_items(original, patch, key, member.type.element, steps), patch, original, key)


def _without_special_items(
    original: Sequence[JSONObject], patch: Sequence[JSONObject], key: str
) -> tuple[Sequence[JSONObject], Sequence[JSONObject]]:
    """The original without the items that the patch deletes or replaces, and the patch without such directives."""
    plain = [item for item in patch if _PATCH not in item]
    replaced = False
    gone: set[Any] = set()
    for item in patch:
        directive = item.get(_PATCH)
        if directive == "delete":
            gone.add(_identity(_key_of(item, key)))
        elif directive == "replace":
            replaced = True
        elif directive == "merge":
            raise StrategicPatchError("merging lists cannot yet be specified in the patch")
        elif directive is not None:
            raise StrategicPatchError(f"unknown patch type: {directive} in map: {go_text(item)}")
    if replaced:
        return plain, ()
    return [item for item in original if _identity(item.get(key)) not in gone] if gone else original, plain


def _merged_items(
    original: Sequence[JSONObject], patch: Sequence[JSONObject], key: str, of: Type, steps: _Budget
) -> list[JSONObject]:
    merged = list(original)
    places: dict[Any, int] = {}
    for index, item in enumerate(merged):
        places.setdefault(_identity(item.get(key)), index)
    for item in patch:
        identity = _identity(_key_of(item, key))
        if identity in places:
            merged[places[identity]] = _merged(merged[places[identity]], item, of, steps)
        else:
            places[identity] = len(merged)
            merged.append(item)
    return merged


def _put_in_order(merged: JSONObject, patch: JSONMapping, name: str, order: Any, of: Type, steps: _Budget) -> None:
    """Merge the list of that name, if there is one, and put it into the order of `$setElementOrder`."""
    before, change = merged.get(name), patch.get(name)
    for value in (order, *([before] if name in merged else []), *([change] if name in patch else [])):
        if isinstance(value, list):
            steps.take(value)
        else:
            raise StrategicPatchError(f"expected a []interface {{}}, but received a {_go_type(value)}")
    member = _member(of, name)
    _check_order(change or [], order, member.merge_key)
    if name not in merged and name not in patch:
        return
    if name not in merged:
        items, _ = _without_directives(change)
    elif name not in patch:
        items = before
    else:
        items = _merged_list(before or [], change or [], member, steps)
    if not before and not change:
        raise StrategicPatchError("no elements in any of the given slices")
    merged[name] = _ordered(items, order, before or [], member.merge_key)


def _check_order(items: Sequence[Any], order: Sequence[Any], key: str) -> None:
    """Check that the items of the patch are in the order that the patch sets. Raises StrategicPatchError."""
    if not order or not items:
        return
    ordered = [item for item in items if not (key and isinstance(item, dict) and item.get(_PATCH) == "delete")]
    met = 0
    for each in order:
        while met < len(ordered) and isinstance(ordered[met], dict) and _PATCH in ordered[met]:
            met += 1
        if met == len(ordered):
            return
        met += _identity(_order_key(ordered[met], key)) == _identity(_order_key(each, key))
    # As in upstream, a directive after the last item of the order is an error too.
    if met < len(ordered):
        shown = f"\n{go_text(items)}\n doesn't match $setElementOrder list:\n{go_text(order)}\n"
        raise StrategicPatchError(f"The order in patch list:{shown}")


def _ordered(items: Sequence[Any], order: Sequence[Any], before: Sequence[Any], key: str) -> list[Any]:
    """The items that `order` names, in that order; between them the others, at the places that they had in `before`."""
    place = {_identity(_order_key(each, key)): index for index, each in enumerate(order)}
    earlier = {_identity(_order_key(each, key)): index for index, each in enumerate(before)}
    named: list[tuple[Any, Any]] = []
    others: list[tuple[Any, Any]] = []
    for item in items:
        identity = _identity(_order_key(item, key))
        (named if identity in place else others).append((identity, item))
    named.sort(key=lambda pair: place[pair[0]])
    result: list[Any] = []
    taken = 0
    for identity, item in others:
        # The next named item goes first, unless both were there before and it came later.
        while taken < len(named) and not (earlier.get(identity, len(before)) < earlier.get(named[taken][0], 0)):
            result.append(named[taken][1])
            taken += 1
        result.append(item)
    return result + [item for _, item in named[taken:]]


def _order_key(item: Any, key: str) -> Any:
    return _key_of(item, key) if key and isinstance(item, dict) else item


def _key_of(item: JSONMapping, key: str) -> Any:
    if key not in item:
        raise StrategicPatchError(f"map: {go_text(item)} does not contain declared merge key: {key}")
    return item[key]


def _element_kind(*lists: Sequence[Any]) -> str:
    # Only one value of each type is looked at, since lists may be long.
    kinds = {json_kind(item) for item in {type(item): item for items in lists for item in items}.values()}
    if "array" in kinds:
        raise StrategicPatchError("lists of lists are not supported")
    if len(kinds) > 1:
        raise StrategicPatchError(f"list element types are not identical: {go_text(list(lists))}")
    return kinds.pop()


def _identity(value: Any) -> Any:
    """A value that compares as in Go: true is not 1. Two maps or lists are never equal."""
    if isinstance(value, str):
        return value
    return (json_kind(value), value) if not isinstance(value, dict | list) else (json_kind(value), id(value))


def _member(of: Type, name: str) -> Member:
    if of.kind == "map":
        raise StrategicPatchError("merging an object in json but data type is not struct, instead is: map")
    if name not in of.members:
        raise StrategicPatchError(f"unable to find api field in struct {of.short_name} for the json field {quote(name)}")
    return of.members[name]


def _go_type(value: Any) -> str:
    names = {"object": "map[string]interface {}", "number": "int64", "null": "%!s(<nil>)"}
    return names.get(json_kind(value), json_kind(value))


def go_text(value: Any) -> str:
    """A decoded patch as Go's %v prints it."""
    # All pieces are joined once at the end: joining them at each level would copy the text of deep levels again and again.
    pieces: list[str] = []
    _put_text(value, pieces)
    return "".join(pieces)


def _put_text(value: Any, pieces: list[str]) -> None:
    if isinstance(value, Mapping):
        pieces.append("map[")
        for index, key in enumerate(sorted(value)):
            pieces.append(f" {key}:" if index else f"{key}:")
            _put_text(value[key], pieces)
        pieces.append("]")
    elif isinstance(value, list | tuple):
        pieces.append("[")
        for index, item in enumerate(value):
            if index:
                pieces.append(" ")
            _put_text(item, pieces)
        pieces.append("]")
    elif isinstance(value, bool):
        pieces.append("true" if value else "false")
    else:
        pieces.append("<nil>" if value is None else str(value))
