from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes, Chain
from aggserver.authentication.user import UserInfo
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo

CRONTABS = ResourceInfo("g", "v1", "crontabs", "CronTab", "CronTabList", namespaced=True)
NEW: JSONObject = {"metadata": {"name": "a"}, "x": 1}
OLD: JSONObject = {"metadata": {"name": "a"}, "x": 0}


def attributes(operation: str = CREATE, name: str = "a") -> Attributes:
    return Attributes(operation, UserInfo("alice"), CRONTABS, "", "CronTab", "g/v1", "default", name, dry_run=False)


class Plugin:
    """Records its calls, and rejects if it was given an error."""

    def __init__(self, seen: list[Any], mark: str, refusal: errors.StatusError | None = None, *, changes: bool = True) -> None:
        self._seen = seen
        self._mark = mark
        self._refusal = refusal
        self._changes = changes

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        self._seen.append((self._mark, attributes.operation, attributes.name))
        if obj is not None and self._changes:
            obj["marks"] = [*obj.get("marks", []), self._mark]
        if self._refusal is not None:
            raise self._refusal
        return self._changes

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        self._seen.append((self._mark, attributes.name, obj, old))
        if self._refusal is not None:
            raise self._refusal


async def test_mutating_in_order() -> None:
    obj: JSONObject = {"metadata": {}}
    assert await Chain([Plugin([], "one"), Plugin([], "two")]).bind(attributes()).mutate(obj, None)
    assert obj["marks"] == ["one", "two"]


async def test_one_change_is_a_change() -> None:
    plugins = [Plugin([], "one"), Plugin([], "two", changes=False)]
    assert await Chain(plugins).bind(attributes()).mutate({"metadata": {}}, None)
    assert not await Chain(plugins[1:]).bind(attributes()).mutate({"metadata": {}}, None)


async def test_the_first_refusal_ends_it() -> None:
    obj: JSONObject = {"metadata": {}}
    refusal = errors.forbidden("g", "crontabs", "a", "no")
    with pytest.raises(errors.StatusError):
        await Chain([Plugin([], "one", refusal), Plugin([], "two")]).bind(attributes()).mutate(obj, None)
    assert obj["marks"] == ["one"]


async def test_validating_in_order() -> None:
    seen: list[Any] = []
    bound = Chain(validating=[Plugin(seen, "one"), Plugin(seen, "two", errors.bad_request("no")), Plugin(seen, "three")]).bind(
        attributes(UPDATE)
    )
    with pytest.raises(errors.StatusError):
        await bound.validate(NEW, OLD)
    assert seen == [("one", "a", NEW, OLD), ("two", "a", NEW, OLD)]


async def test_what_was_counted_is_taken_back_once_when_the_write_fails() -> None:
    taken: list[str] = []

    class Counting(Plugin):
        async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
            attributes.undo.append(lambda: taken.append(self._mark))

    bound = Chain([Plugin([], "zero")], [Counting([], "one"), Counting([], "two")]).bind(attributes(UPDATE, ""))
    bound.failed()
    await bound.mutate(dict(NEW), None)
    await bound.validate(NEW, None)
    assert taken == []
    bound.failed()
    bound.failed()
    assert taken == ["two", "one"]


@pytest.mark.parametrize(
    ("obj", "old", "operation"), [(NEW, None, CREATE), (NEW, OLD, UPDATE), (None, OLD, DELETE), (None, None, DELETE)]
)
async def test_the_operation_follows_from_the_objects(obj: JSONObject | None, old: JSONObject | None, operation: str) -> None:
    seen: list[Any] = []
    given = None if obj is None else dict(obj)
    await Chain([Plugin(seen, "one")]).bind(attributes(UPDATE)).mutate(given, old)
    assert seen == [("one", operation, "a")]


async def test_a_generated_name_is_known_when_validating() -> None:
    seen: list[Any] = []
    bound = Chain(validating=[Plugin(seen, "one")]).bind(attributes(name=""))
    for name in ("a-x", "a-y"):  # a second try has another name
        await bound.validate({"metadata": {"name": name}}, None)
    assert [name for _, name, _, _ in seen] == ["a-x", "a-y"]


async def test_the_objects_of_a_collection_have_no_name() -> None:
    seen: list[Any] = []
    bound = Chain(validating=[Plugin(seen, "one")]).bind(attributes(DELETE, name=""))
    for name in ("a", "b"):
        await bound.validate(None, {"metadata": {"name": name}})
    assert [(name, old["metadata"]["name"]) for _, name, _, old in seen] == [("", "a"), ("", "b")]


async def test_a_renamed_object_keeps_the_name_of_the_request() -> None:
    class Renaming:
        async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
            assert obj is not None
            obj["metadata"] = {"name": "b"}
            return True

    seen: list[Any] = []
    bound = Chain([Renaming()], [Plugin(seen, "one")]).bind(attributes(name=""))
    obj: JSONObject = {"metadata": {"name": "a"}}
    await bound.mutate(obj, None)
    await bound.validate(obj, None)
    assert [name for _, name, _, _ in seen] == ["a"]


class Wanting(Plugin):
    """Asks for a second round when it is first asked."""

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        state = attributes.reinvocation.state
        state[self] = state.get(self, 0) + 1
        attributes.reinvocation.wanted = True
        self._seen.append((attributes.reinvocation.again, state[self]))
        return False


async def test_a_second_round_and_no_third() -> None:
    seen: list[Any] = []
    bound = Chain([Wanting(seen, "one"), Plugin(seen, "two")]).bind(attributes())
    assert await bound.mutate({"metadata": {}}, None)
    assert seen == [(False, 1), ("two", CREATE, "a"), (True, 2), ("two", CREATE, "a")]


async def test_each_object_has_its_own_rounds() -> None:
    seen: list[Any] = []
    bound = Chain([Wanting(seen, "one")]).bind(attributes())
    for _ in range(2):
        await bound.mutate({"metadata": {}}, None)
    assert seen == [(False, 1), (True, 2)] * 2


class Picky(Plugin):
    """Concerned with updates and deletions only."""

    def concerns(self, attributes: Attributes) -> bool:
        return attributes.operation in (UPDATE, DELETE)


async def test_a_selective_plugin_is_asked_about_what_concerns_it() -> None:
    seen: list[Any] = []
    chain = Chain([Picky(seen, "one"), Plugin(seen, "two")], [Picky(seen, "three")])
    for old in (None, OLD):
        bound = chain.bind(attributes())
        await bound.mutate({"metadata": {"name": "a"}}, old)
        await bound.validate(NEW, old)
    assert [(entry[0], entry[1]) for entry in seen] == [("two", CREATE), ("one", UPDATE), ("two", UPDATE), ("three", "a")]


def test_objects_are_looked_at_by_those_that_are_concerned() -> None:
    for chain in (Chain([Plugin([], "one"), Picky([], "two")]), Chain([], [Picky([], "two")])):
        found = [chain.bind(attributes(operation)).looks_at_objects for operation in (CREATE, UPDATE, DELETE)]
        assert found == [False, True, True]
    assert not Chain([Plugin([], "one")], [Plugin([], "two")]).bind(attributes(UPDATE)).looks_at_objects


async def test_without_an_object_only_those_that_are_always_asked() -> None:
    """The deletion of what does not exist."""
    seen: list[Any] = []
    await Chain([Plugin(seen, "one"), Picky(seen, "two")]).bind(attributes(DELETE)).mutate(None, None)
    assert seen == [("one", DELETE, "a")]


async def test_a_selective_plugin_is_asked_after_an_earlier_one() -> None:
    """One that waits until the rules are known, for example."""
    seen: list[Any] = []
    known = []

    class Waits(Plugin):
        async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
            known.append(True)
            return False

    class Needs(Plugin):
        def concerns(self, attributes: Attributes) -> bool:
            return bool(known)

    await Chain([Waits([], "one"), Needs(seen, "two")]).bind(attributes()).mutate({"metadata": {"name": "a"}}, None)
    assert len(seen) == 1


async def test_each_object_has_a_reinvocation_of_its_own() -> None:
    seen: list[Any] = []

    class Remembers(Plugin):
        async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
            seen.append(attributes.reinvocation)
            return False

    bound = Chain([Remembers([], "one")]).bind(attributes(UPDATE))
    for _ in range(3):
        await bound.mutate(dict(NEW), OLD)
    assert len({id(each) for each in seen}) == 3


def test_a_new_namespace_is_in_itself() -> None:
    """As upstream, where only the path tells the namespace of other requests."""
    info = ResourceInfo("", "v1", "namespaces", "Namespace", "NamespaceList", namespaced=False)
    asked = Attributes(CREATE, UserInfo("alice"), info, "", "Namespace", "v1", "", "", dry_run=False)
    assert asked.of(CREATE, "team").namespace == "team"
    others = ResourceInfo("g", "v1", "namespaces", "Namespace", "NamespaceList", namespaced=False)
    assert (
        Attributes(CREATE, UserInfo("alice"), others, "", "N", "g/v1", "", "", dry_run=False).of(CREATE, "team").namespace == ""
    )


async def test_a_resource_has_no_plugin_that_never_concerns_it() -> None:
    calls: list[Any] = []

    class OfPods(Plugin):
        resources = frozenset({("", "pods")})

    chain = Chain([Plugin(calls, "all"), OfPods(calls, "pods")], [OfPods(calls, "pods")])
    await chain.of("", "pods").bind(attributes(UPDATE)).mutate(dict(NEW), OLD)
    assert len(calls) == 2
    calls.clear()
    others = chain.of("example.com", "pods").bind(attributes(UPDATE))
    await others.mutate(dict(NEW), OLD)
    await others.validate(dict(NEW), OLD)
    assert len(calls) == 1
