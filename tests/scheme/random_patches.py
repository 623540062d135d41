"""Random strategic merge patches for random objects: changed, new and deleted items, and directives."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from aggserver.scheme.types import Member, Type
from tests.scheme.random_objects import random_object

__all__ = ["random_patch", "with_keys"]


def with_keys(value: Any, of: Type) -> Any:
    """The value, and in it each item of a list that is merged has a key of its own."""
    if of.kind == "struct" and isinstance(value, dict):
        return {name: _with_keys_of(inner, of.members[name]) for name, inner in value.items()}
    if of.kind == "map" and of.element is not None:
        return {name: with_keys(inner, of.element) for name, inner in value.items()}
    return value


def _with_keys_of(value: Any, member: Member) -> Any:
    if member.type.kind != "list" or member.type.element is None or value is None:
        return value if value is None else with_keys(value, member.type)
    element, items = member.type.element, [each for each in value if each is not None]
    if element.kind != "struct":
        return items
    made = [with_keys(each, element) for each in items]
    if member.merge_key:
        is_number = element.members[member.merge_key].type.kind == "int32"
        for index, each in enumerate(made):
            each[member.merge_key] = index + 1 if is_number else f"k{index}"
    return made


def random_patch(obj: dict[str, Any], of: Type, random: Random) -> dict[str, Any]:
    """A patch of an object that has keys."""
    other = with_keys(random_object(of, random), of)
    other.pop("metadata", None)
    return _patch(obj, other, of, random)


def _patch(obj: dict[str, Any], other: dict[str, Any], of: Type, random: Random) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for name, value in other.items():
        before = obj.get(name)
        if value is None or random.random() < 0.1:
            patch[name] = None
        elif (
            isinstance(value, dict)
            and isinstance(before, dict)
            and of.kind == "struct"
            and of.members[name].type.kind == "struct"
        ):
            patch[name] = _patch(before, value, of.members[name].type, random)
        elif isinstance(value, list) and of.kind == "struct" and of.members[name].merge_strategy == "merge":
            _patch_list(patch, before or [], value, of.members[name], random)
        else:
            patch[name] = copy.deepcopy(value)
    _direct(patch, obj, random)
    return patch


def _direct(patch: dict[str, Any], obj: dict[str, Any], random: Random) -> None:
    chance = random.random()
    if chance < 0.03:
        patch["$patch"] = random.choice(("replace", "delete"))
    elif chance < 0.1:
        patch["$retainKeys"] = [name for name in patch if not name.startswith("$")] + list(obj)[:2]


def _patch_list(patch: dict[str, Any], before: list[Any], after: list[Any], member: Member, random: Random) -> None:
    name, key, element = member.name, member.merge_key, member.type.element
    assert element is not None
    if not key:
        # What is added is not deleted, since Go does either first.
        if before and random.random() < 0.5:
            patch[f"$deleteFromPrimitiveList/{name}"] = before[:1]
        else:
            patch[name] = list(after)
        return
    known = {each[key]: each for each in before}
    items = []
    for each in after:
        item = _patch(known.get(each[key], {}), each, element, random)
        item[key] = each[key]
        items.append(item)
    if before and random.random() < 0.3:
        gone = random.choice(before)[key]
        items = [each for each in items if each[key] != gone] + [{"$patch": "delete", key: gone}]
    if random.random() < 0.05:
        items.append({"$patch": "replace"})
    patch[name] = items
    if random.random() < 0.4:
        order = [{key: each[key]} for each in items if key in each and "$patch" not in each]
        seen = [each[key] for each in order]
        order += [{key: each[key]} for each in before if each[key] not in seen]
        patch[f"$setElementOrder/{name}"] = order
