"""What a server relies on when it reads: `list`, its pages, `get`, and selectors that a function takes notice of.

A selector may be ignored, since the server filters again; what a function leaves out for one nobody can add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aggserver.storage import keys
from aggserver.testing.source_contract.asked import Asked, Item, difference, shown

__all__ = ["check_pages", "check_reads", "check_schema", "same"]

# Objects of which `get` and selectors are tried: spread over the list, since one call of each for all would take long.
_TRIED = 20
# Pages into which a list is cut, about.
_PAGES = 10
# Names that no object has, the second in a namespace that no object is in.
_NOWHERE = "no-such-object-of-check-source"


async def check_reads(asked: Asked) -> dict[str, Item]:
    """All rules for reading. Returns all objects."""
    first = await asked.all()
    second = await asked.all()
    same(first, second, f"{asked.function('list')} was called twice, and", "if nothing has changed, both must be equal")
    _check_objects(asked, first)
    if asked.functions.list is not None:
        await check_pages(asked, first)
        if not asked.is_followed:  # a mirror never asks for less than everything
            await _check_namespaces(asked, first)
            await _check_selectors(asked, first)
    if asked.functions.get is not None:
        await _check_get(asked, first)
    return first


def same(before: Mapping[str, Item], after: Mapping[str, Item], what: str, why: str) -> None:
    """Raise AssertionError for the first object that differs."""
    for key, item in before.items():
        if key not in after:
            raise AssertionError(f"{what} {shown(key)} was missing afterwards: {why}")
        if after[key].uid != item.uid:
            raise AssertionError(
                f"{what} the uid of {shown(key)} was {item.uid} and is {after[key].uid}: a uid must stay; make it of what "
                "identifies the row, or leave it out"
            )
        if found := difference(item, after[key]):
            raise AssertionError(f"{what} of {shown(key)} {found}: {why}")
    for key in after:
        if key not in before:
            raise AssertionError(f"{what} {shown(key)} was only there afterwards: {why}")


def _check_objects(asked: Asked, items: Mapping[str, Item]) -> None:
    uids: dict[str, str] = {}
    for key, item in items.items():
        if item.uid in uids:
            raise AssertionError(f"{shown(uids[item.uid])} and {shown(key)} have the same uid {item.uid}")
        uids[item.uid] = key
        check_schema(asked, item, "list")


def check_schema(asked: Asked, item: Item, verb: str) -> None:
    """That an object which a function has returned is as the schema says."""
    if problems := asked.problems(item.decoded()):
        what = f"{shown(item.key)}, as {asked.function(verb)} returned it,"
        raise AssertionError(f"{what} is not as its schema says: {problems[0]}")


async def check_pages(asked: Asked, items: Mapping[str, Item]) -> None:
    """That pages add up to the list, and that a page can be asked for again, as a client does whose connection broke."""
    limit = max(1, len(items) // _PAGES)
    what = f"{asked.function('list')}, asked for pages of {limit},"
    found: dict[str, Item] = {}
    cursor = ""
    while True:
        made, after = await asked.page(limit=limit, cursor=cursor)
        again, again_after = await asked.page(limit=limit, cursor=cursor)
        if [item.key for item in again] != [item.key for item in made] or bool(after) != bool(again_after):
            raise AssertionError(f"{what} returned another page for the cursor {cursor!r} when it was called with it again")
        for item in made:
            if item.key in found:
                raise AssertionError(f"{what} returned {shown(item.key)} in two pages")
            found[item.key] = item
        if not after:
            break
        if after == cursor:
            raise AssertionError(f"{what} returned the cursor {cursor!r} for the page that it was asked for: it never ends")
        if len(found) > len(items):
            break
        cursor = after
    same(items, found, f"{what} gave other objects than without a limit:", "pages must add up to the list")


async def _check_namespaces(asked: Asked, items: Mapping[str, Item]) -> None:
    if not asked.info.namespaced:
        return
    for namespace in sorted({keys.split(key).namespace for key in items})[:_TRIED]:
        wanted = {key: item for key, item in items.items() if keys.split(key).namespace == namespace}
        _contains(await asked.all(namespace=namespace), wanted, asked, f"for the namespace {namespace}")


async def _check_selectors(asked: Asked, items: Mapping[str, Item]) -> None:
    decoded = {key: item.decoded() for key, item in items.items()}
    for key in _spread(list(items)):
        name = keys.split(key).name
        wanted = {each: item for each, item in items.items() if keys.split(each).name == name}
        selector = f"metadata.name={name}"
        _contains(await asked.all(fields=selector), wanted, asked, f"with the field selector {selector}")
    for path in asked.declaration.selectable:
        values = {key: _text(_value(obj, path)) for key, obj in decoded.items()}
        for value in sorted({value for value in values.values() if value})[:_TRIED]:
            wanted = {key: items[key] for key in items if values[key] == value}
            selector = f"{path.removeprefix('.')}={_escaped(value)}"
            found = await asked.all(fields=selector)
            _contains(found, wanted, asked, f"with the field selector {selector}")
            _matches(found, wanted, asked, selector)
    labels = {key: obj["metadata"].get("labels") or {} for key, obj in decoded.items()}
    for pair in sorted({pair for each in labels.values() for pair in each.items()})[:_TRIED]:
        wanted = {key: items[key] for key in items if pair in labels[key].items()}
        selector = "=".join(pair)
        found = await asked.all(labels=selector)
        _contains(found, wanted, asked, f"with the label selector {selector}")
        _matches(found, wanted, asked, selector)


def _matches(found: Mapping[str, Item], wanted: Mapping[str, Item], asked: Asked, selector: str) -> None:
    """A page that says so is not filtered again."""
    others = [key for key in found if key not in wanted]
    if asked.is_filtered and others:
        raise AssertionError(
            f"{asked.function('list')} returned {shown(others[0])} for {selector}, which it does not match, in a page with "
            "filtered=True"
        )


def _contains(found: Mapping[str, Item], wanted: Mapping[str, Item], asked: Asked, how: str) -> None:
    what = f"{asked.function('list')}, asked {how},"
    for key, item in wanted.items():
        if key not in found:
            raise AssertionError(f"{what} left out {shown(key)}: a function may ignore that, and must not lose what is asked for")
        if text := difference(item, found[key]):
            raise AssertionError(f"{what} returned another {shown(key)} than without that: {text}")


async def _check_get(asked: Asked, items: Mapping[str, Item]) -> None:
    for key in _spread(list(items)):
        namespace, name = keys.split(key)[2:]
        found = await asked.get(namespace, name)
        if found is None:
            raise AssertionError(f"{asked.function('get')} found no {shown(key)}, which list has returned")
        if text := difference(items[key], found):
            raise AssertionError(f"{asked.function('get')} returned another {shown(key)} than list: {text}")
        if namespace and await asked.get(_NOWHERE, name) is not None:
            raise AssertionError(
                f"{asked.function('get')} found {name} in a namespace that it is not in: look at request.namespace, else who may "
                "read one namespace reads all"
            )
    if await asked.get(_NOWHERE if asked.info.namespaced else "", _NOWHERE) is not None:
        raise AssertionError(f"{asked.function('get')} found an object for a name that nobody has: it must return None")


def _spread(names: Sequence[str]) -> Sequence[str]:
    """Some of them, the first and the last among them."""
    if len(names) <= _TRIED:
        return names
    return [names[index * (len(names) - 1) // (_TRIED - 1)] for index in range(_TRIED)]


def _value(obj: Any, path: str) -> Any:
    for name in path.removeprefix(".").split("."):
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    return obj


def _text(value: Any) -> str:
    """As field selectors see it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int) else ""


def _escaped(value: str) -> str:
    """Source: k8s.io/apimachinery pkg/fields/selector.go (EscapeValue)."""
    return "".join(f"\\{char}" if char in "\\,=" else char for char in value)
