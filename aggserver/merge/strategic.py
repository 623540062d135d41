"""Strategic merge patch: merges a patch into an object of a kind that has a Go type, whose tags say how lists are merged.

A list with the strategy `merge` is merged by the key of its items, or as a set if they are scalars; every other list is replaced.
Directives in the patch say what else to do: `$patch: delete` and `$patch: replace` in a map, `$retainKeys` for its members,
`$deleteFromPrimitiveList/x` and `$setElementOrder/x` for a list x beside it. kubectl sends such patches for all kinds that it has
compiled in.
Nothing is changed in place; the result may share parts with both arguments. Pure.
Source: k8s.io/apimachinery pkg/util/strategicpatch/patch.go, pkg/util/mergepatch/errors.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aggserver.meta.golang import json_kind, quote
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.scheme.types import Member, Type

__all__ = ["BadDirectiveError", "StrategicPatchError", "go_text", "strategic_merge"]

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETIONS = "$deleteFromPrimitiveList/"


class StrategicPatchError(ValueError):
    """The patch can't be merged into the object; upstream takes that for an error of its own (500)."""


class BadDirectiveError(StrategicPatchError):
    """A directive has a wrong form (400)."""


def strategic_merge(original: JSONMapping, patch: JSONMapping, of: Type) -> JSONObject:
    """The patched object. of: the type of the object. Raises StrategicPatchError."""
    if _PATCH in patch:
        return _directed(patch)
    merged, patch = _retained(original, patch)
    patch = dict(patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        order, name = patch.pop(key), key.removeprefix(_ORDER)
        _put_in_order(merged, patch, name, order, of)
        patch.pop(name, None)
    for key, value in patch.items():
        if key.startswith(_DELETIONS):
            name = key.removeprefix(_DELETIONS)
            if value is None:
                merged.pop(name, None)
            elif json_kind(merged.get(name)) == json_kind(value) == "array":
                gone = set(map(_identity, value))
                merged[name] = [item for item in merged[name] if _identity(item) not in gone]
        elif value is None:
            merged.pop(key, None)
        elif key in merged:
            _merge_member(merged, key, value, of)
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
    retained = patch[_RETAIN_KEYS]
    rest = {key: value for key, value in patch.items() if key != _RETAIN_KEYS}
    named = [key for key, value in rest.items() if value is not None and not key.startswith((_ORDER, _DELETIONS))]
    if not isinstance(retained, list) or any(key not in retained for key in named):
        raise BadDirectiveError("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in retained}, rest


def _merge_member(merged: JSONObject, key: str, value: Any, of: Type) -> None:
    kind = json_kind(value)
    if json_kind(merged[key]) != kind or kind not in ("object", "array"):
        _set(merged, key, value)
        return
    member = _member(of, key)
    if kind == "object":
        merged[key] = value if member.merge_strategy == "replace" else strategic_merge(merged[key], value, member.type)
    else:
        merged[key] = _merged_list(merged[key], value, member)


def _set(merged: JSONObject, key: str, value: Any) -> None:
    """Take a member from the patch as it is, without its nulls and directives."""
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
    """The value, and whether it stays: a map with `$patch` does not."""
    if isinstance(value, list):
        return [inner for inner, stays in map(_without_directives, value) if stays], True
    if not isinstance(value, dict):
        return value, True
    if _PATCH in value:
        return None, False
    members = {key: _without_directives(inner) for key, inner in value.items()}
    return {key: inner for key, (inner, stays) in members.items() if stays}, True


# --- lists ---


def _merged_list(original: Sequence[Any], patch: Sequence[Any], member: Member) -> list[Any]:
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
    return _ordered(_merged_items(original, patch, key, member.type.element), patch, original, key)


def _without_special_items(
    original: Sequence[JSONObject], patch: Sequence[JSONObject], key: str
) -> tuple[Sequence[JSONObject], Sequence[JSONObject]]:
    """The original without the items that the patch deletes or replaces, and the patch without such directives."""
    plain = [item for item in patch if _PATCH not in item]
    replaced = False
    for item in patch:
        directive = item.get(_PATCH)
        if directive == "delete":
            gone = _identity(_key_of(item, key))
            original = [each for each in original if _identity(each.get(key)) != gone]
        elif directive == "replace":
            replaced = True
        elif directive == "merge":
            raise StrategicPatchError("merging lists cannot yet be specified in the patch")
        elif directive is not None:
            raise StrategicPatchError(f"unknown patch type: {directive} in map: {go_text(item)}")
    return (plain, ()) if replaced else (original, plain)


def _merged_items(original: Sequence[JSONObject], patch: Sequence[JSONObject], key: str, of: Type) -> list[JSONObject]:
    merged = list(original)
    places: dict[Any, int] = {}
    for index, item in enumerate(merged):
        places.setdefault(_identity(item.get(key)), index)
    for item in patch:
        identity = _identity(_key_of(item, key))
        if identity in places:
            merged[places[identity]] = strategic_merge(merged[places[identity]], item, of)
        else:
            places[identity] = len(merged)
            merged.append(item)
    return merged


def _put_in_order(merged: JSONObject, patch: JSONMapping, name: str, order: Any, of: Type) -> None:
    """Merge the list of that name, if there is one, and put it into the order that `$setElementOrder` has."""
    before, change = merged.get(name), patch.get(name)
    for value in (order, *([before] if name in merged else []), *([change] if name in patch else [])):
        if not isinstance(value, list):
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
        items = _merged_list(before or [], change or [], member)
    if not before and not change:
        raise StrategicPatchError("no elements in any of the given slices")
    merged[name] = _ordered(items, order, before or [], member.merge_key)


def _check_order(items: Sequence[Any], order: Sequence[Any], key: str) -> None:
    """The items of the patch must be in the order that it sets."""
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
    # As upstream, a directive after the last item of the order is an error, too.
    if met < len(ordered):
        shown = f"\n{go_text(items)}\n doesn't match $setElementOrder list:\n{go_text(order)}\n"
        raise StrategicPatchError(f"The order in patch list:{shown}")


def _ordered(items: Sequence[Any], order: Sequence[Any], before: Sequence[Any], key: str) -> list[Any]:
    """The items that `order` names in that order, and between them the others where they were in the list before."""
    place = {_identity(_order_key(each, key)): index for index, each in enumerate(order)}
    earlier = {_identity(_order_key(each, key)): index for index, each in enumerate(before)}

    def identity(item: Any) -> Any:
        return _identity(_order_key(item, key))

    named = sorted((item for item in items if identity(item) in place), key=lambda item: place[identity(item)])
    others = [item for item in items if identity(item) not in place]
    result: list[Any] = []
    for item in others:
        # The next named item goes first, unless both were there before and it came later.
        while named and not (earlier.get(identity(item), len(before)) < earlier.get(identity(named[0]), 0)):
            result.append(named.pop(0))
        result.append(item)
    return result + named


def _order_key(item: Any, key: str) -> Any:
    return _key_of(item, key) if key and isinstance(item, dict) else item


def _key_of(item: JSONMapping, key: str) -> Any:
    if key not in item:
        raise StrategicPatchError(f"map: {go_text(item)} does not contain declared merge key: {key}")
    return item[key]


def _element_kind(*lists: Sequence[Any]) -> str:
    kinds = {json_kind(item) for items in lists for item in items}
    if "array" in kinds:
        raise StrategicPatchError("lists of lists are not supported")
    if len(kinds) > 1:
        raise StrategicPatchError(f"list element types are not identical: {go_text(list(lists))}")
    return kinds.pop()


def _identity(value: Any) -> Any:
    """A value that can be compared as Go does: true is not 1. Maps and lists are never the same."""
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
    if isinstance(value, Mapping):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(go_text, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
