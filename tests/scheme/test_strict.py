"""What a strict decoder tells of a JSON text, for the types in the tables."""

from __future__ import annotations

import pytest

from aggserver.meta import json_text
from aggserver.scheme import strict
from aggserver.scheme.types import lookup

_POD = lookup("core/v1.Pod")
_DEFINITION = lookup("apiextensions/v1.CustomResourceDefinition")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("{}", [], id="empty"),
        pytest.param(' { "kind" : "Pod" , "spec" : { "containers" : [ { "name" : "a" } , { } ] } } ', [], id="nothing"),
        pytest.param('{"b":1,"kind":"","a":2,"kind":""}', ["unknown b", "unknown a", "duplicate kind"], id="in order"),
        pytest.param('{"kind":"","kind":"","kind":""}', ["duplicate kind"], id="each once"),
        pytest.param('{"a":{"b":1,"b":1},"a":1}', ["unknown a"], id="nothing within what is unknown"),
        pytest.param('{"Kind":"Pod"}', ["unknown Kind"], id="case of letters"),
        pytest.param('{"k\\u0069nd":"","kind":""}', ["duplicate kind"], id="escapes"),
        pytest.param('{"kind":null,"kind":null}', ["duplicate kind"], id="null"),
        pytest.param(
            '{"metadata":{"labels":{"a":"","a":"","b":""},"x":1}}',
            ["duplicate metadata.labels.a", "unknown metadata.x"],
            id="maps and metadata",
        ),
        pytest.param(
            '{"spec":{"containers":[{},{"ports":[{"x":1,"hostPort":1,"hostPort":2}]}]}}',
            ["unknown spec.containers[1].ports[0].x", "duplicate spec.containers[1].ports[0].hostPort"],
            id="lists",
        ),
        pytest.param(
            '{"spec":{"x":1},"spec":{"y":1}}',
            ["unknown spec.x", "duplicate spec", "unknown spec.y"],
            id="in both of what is there twice",
        ),
        pytest.param(
            '{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{},"f:a":{}}}]}}', [], id="nothing in what a type reads itself"
        ),
        pytest.param('{"spec":{"containers":{"a":1},"nodeSelector":["a"]}}', [], id="other types than Go's"),
        pytest.param('{"":1,"a\\"b":1}', ["unknown ", 'unknown a\\"b'], id="odd names"),
    ],
)
def test_of_a_pod(text: str, told: list[str]) -> None:
    quoted = [f'{what} field "{path}"' for what, _, path in (each.partition(" ") for each in told)]
    assert strict.complaints(text.encode(), _POD) == quoted


def test_of_a_schema() -> None:
    """`items` and `additionalProperties` are read by their own types, `properties` and `allOf` are not."""
    inner = b'{"x": 1, "type": "string", "type": "string"}'
    for place, told in (
        (b'"items": %s', []),
        (b'"additionalProperties": %s', []),
        (b'"default": %s', []),
        (b'"properties": {"a": %s}', ["unknown properties.a.x", "duplicate properties.a.type"]),
        (b'"allOf": [%s]', ["unknown allOf[0].x", "duplicate allOf[0].type"]),
    ):
        text = b'{"spec": {"versions": [{"schema": {"openAPIV3Schema": {%s}}}]}}' % (place % inner)
        at = "spec.versions[0].schema.openAPIV3Schema"
        expected = [f'{what} field "{at}.{path}"' for what, path in (each.split(" ") for each in told)]
        assert strict.complaints(text, _DEFINITION) == expected


def test_limits() -> None:
    """As many as upstream keeps; and of long paths fewer, since all of them are kept."""
    members = ",".join(f'"a{at}":1' for at in range(150))
    assert len(strict.complaints(f'{{{members},"spec":{{{members}}}}}'.encode(), _POD)) == json_text.MAX_STRICT_ERRORS
    long = "k" * 100_000
    labels = f'{{"metadata":{{"labels":{{"{long}":"","{long}":"","a{long}":"","a{long}":"","b":"","b":""}}}}}}'
    told = strict.complaints(labels.encode(), _POD)
    assert len(told) == 3
    wide = ",".join(f'"{at}{long}":1' for at in range(9))
    assert len(strict.complaints(f"{{{wide}}}".encode(), _POD)) == 3
