"""Round trips: whether `up` and `down` of a version keep everything, tried with objects made up from both schemas.

Each goes to the other version and back. A field that is lost or changed on the way would be lost for all clients, whichever
version they use: the server writes what a client of one version has read and changed. The objects that are made up depend on the
schemas alone, and there are at most 200 from each. Pure, apart from what the functions do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from aggserver.conversion.field_path import FieldPath
from aggserver.conversion.round_trips import content, differences
from aggserver.meta import codec
from aggserver.meta.errors import ObjectTooLarge
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.pruning import MalformedError
from aggserver.schema.samples import samples
from aggserver.typed.codec import Codec, UndecodableError

__all__ = ["Losses", "Side", "tried"]

_MOST = 200
# Fields that are named in one error.
_MOST_FIELDS = 20


@dataclass(frozen=True, slots=True)
class Side:
    """One version. convert: an object of it to the other version; raises what the user's functions raise."""

    api_version: str
    kind: str
    schema: CompiledSchema
    codec: Codec[Any]
    convert: Callable[[JSONObject], JSONObject]


@dataclass(frozen=True, slots=True)
class Losses:
    """lost: field -> what becomes of it. failed: the first error of a function, None if there was none. tried: the objects that
    went both ways.
    """

    lost: dict[str, str]
    failed: Exception | None
    tried: int


def tried(one: Side, other: Side) -> Losses:
    """Objects of one version go to the other one and back."""
    lost: dict[str, str] = {}
    failed: Exception | None = None
    count = 0
    for obj in _made_up(one):
        if len(lost) >= _MOST_FIELDS:
            break
        try:
            back = other.convert(one.convert(codec.decode_stored(codec.encode_json(obj))))
        except Exception as error:  # whatever a user's function raises
            failed = failed or error
            continue
        count += 1
        one.schema.conform(back)
        for field, what in differences(content(obj), content(back), FieldPath(())):
            lost.setdefault(field, what)
    return Losses(lost, failed, count)


def _made_up(side: Side) -> Iterator[JSONObject]:
    """Objects that the schema and the class accept, with the schema's defaults, spelled as the class does it (1m0s for 60s)."""
    for sample in samples(side.schema.structural, _MOST):
        metadata = {"name": "made-up", "namespace": "default", "labels": {"a": "label"}, "annotations": {"an": "annotation"}}
        head: JSONObject = {"apiVersion": side.api_version, "kind": side.kind}
        try:
            sample = _with_free_members(sample, side.schema.structural.schema)
            spelled = side.codec.encode(side.codec.decode({**sample, "metadata": metadata}))
            obj = {**head, **{name: sample[name] for name in ("status",) if name in sample}, **spelled}
            side.schema.conform(obj)
        except (UndecodableError, MalformedError, ObjectTooLarge):
            continue
        found = side.schema.on_create(obj)
        if not found.values and not found.structure and not side.schema.on_rules(obj, None, []).errors:
            yield obj


def _with_free_members(value: Any, node: JSONMapping) -> Any:
    """A copy with a member in each object that may have any: a sample has none there."""
    if isinstance(value, dict):
        properties, values = node.get("properties") or {}, node.get("additionalProperties")
        free = {"any": "member"} if not value and node.get("x-kubernetes-preserve-unknown-fields") else {}
        child = values if isinstance(values, dict) else {}
        return free | {name: _with_free_members(each, properties.get(name) or child) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_free_members(each, node.get("items") or {}) for each in value]
    return value
