from __future__ import annotations

from aggserver.conversion.converter import NoneConverter


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
