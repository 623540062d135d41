from __future__ import annotations

import pytest

from aggserver.conversion.converter import ConversionError, NoneConverter


async def test_none_changes_the_api_version_and_nothing_else() -> None:
    objects = [
        {"apiVersion": "g/v1", "kind": "A", "metadata": {"name": "a"}, "spec": {"x": 1}},
        {"apiVersion": "g/v3", "kind": "A", "metadata": {"name": "b"}},
    ]
    converted = await NoneConverter().convert(objects, "g/v2")
    assert converted == [
        {"apiVersion": "g/v2", "kind": "A", "metadata": {"name": "a"}, "spec": {"x": 1}},
        {"apiVersion": "g/v2", "kind": "A", "metadata": {"name": "b"}},
    ]


async def test_none_of_nothing() -> None:
    assert await NoneConverter().convert([], "g/v2") == []


async def test_none_of_a_version_that_there_is_no_more() -> None:
    converter = NoneConverter({"g/v1", "g/v2"})
    assert await converter.convert([{"apiVersion": "g/v1"}], "g/v2") == [{"apiVersion": "g/v2"}]
    obj = {"apiVersion": "g/v0", "metadata": {"name": "a"}}
    with pytest.raises(ConversionError, match=r"^request to convert CR from an invalid group/version: g/v0$"):
        converter.at_once(obj, "g/v2")
    assert obj["apiVersion"] == "g/v0"
