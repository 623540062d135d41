from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.chain import CREATE, UPDATE, Attributes, Chain
from aggserver.authentication.user import UserInfo
from aggserver.meta import errors


def attributes(operation: str = CREATE, name: str = "a") -> Attributes:
    return Attributes(operation, UserInfo("alice"), "g", "v1", "crontabs", "", "CronTab", "default", name, False)


class Plugin:
    """Records its calls, and rejects if it was given an error."""

    def __init__(self, seen: list[Any], mark: str, refusal: errors.StatusError | None = None) -> None:
        self._seen = seen
        self._mark = mark
        self._refusal = refusal

    async def mutate(self, attributes: Attributes, obj: dict[str, Any] | None) -> None:
        if obj is not None:
            obj["marks"] = [*obj.get("marks", []), self._mark]
        if self._refusal is not None:
            raise self._refusal

    async def validate(self, attributes: Attributes, obj: dict[str, Any] | None, old: dict[str, Any] | None) -> None:
        self._seen.append((self._mark, attributes.name, obj, old))
        if self._refusal is not None:
            raise self._refusal


async def test_mutating_in_order() -> None:
    obj: dict[str, Any] = {}
    await Chain([Plugin([], "one"), Plugin([], "two")]).mutate(attributes(), obj)
    assert obj == {"marks": ["one", "two"]}


async def test_the_first_refusal_ends_it() -> None:
    obj: dict[str, Any] = {}
    refusal = errors.forbidden("g", "crontabs", "a", "no")
    with pytest.raises(errors.StatusError):
        await Chain([Plugin([], "one", refusal), Plugin([], "two")]).mutate(attributes(), obj)
    assert obj == {"marks": ["one"]}


async def test_validating_in_order() -> None:
    seen: list[Any] = []
    validate = Chain(
        validating=[Plugin(seen, "one"), Plugin(seen, "two", errors.bad_request("no")), Plugin(seen, "three")]
    ).validator(attributes(UPDATE))
    assert validate is not None
    with pytest.raises(errors.StatusError):
        await validate({"x": 1}, {"x": 0})
    assert seen == [("one", "a", {"x": 1}, {"x": 0}), ("two", "a", {"x": 1}, {"x": 0})]


def test_nothing_to_validate() -> None:
    assert Chain([Plugin([], "one")]).validator(attributes()) is None


async def test_a_generated_name_is_known_when_validating() -> None:
    seen: list[Any] = []
    validate = Chain(validating=[Plugin(seen, "one")]).validator(attributes(name=""))
    assert validate is not None
    for name in ("a-x", "a-y"):  # a second try has another name
        await validate({"metadata": {"name": name}}, None)
    assert [name for _, name, _, _ in seen] == ["a-x", "a-y"]
