"""Structural schemas at random, the definitions made of them, and values that fit a schema, but for a mistake here and there.

Names and values come from a handful, so that several managers write the same fields, and lists have items in common.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["GROUP", "Definition", "Generator", "definition"]

GROUP = "owners.example.com"

Schema = dict[str, Any]

_NAMES = ("a", "b", "c", "d")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_DEPTH = 3


@dataclass(frozen=True)
class Definition:
    """`before` and `after` are manifests of the same CustomResourceDefinition: the second has other schemas and lacks a version.

    `marker_before` and `marker_after` are versions that only one of them serves, by which the change is seen. `versions` are for
    the requests of histories, `scaled` those of them that have /scale.
    """

    plural: str
    before: dict[str, Any]
    after: dict[str, Any]
    marker_before: str
    marker_after: str
    versions: tuple[str, ...]
    scaled: tuple[str, ...]
    schemas: dict[str, Schema]

    @property
    def kind(self) -> str:
        kind: str = self.before["spec"]["names"]["kind"]
        return kind


class Generator:
    """Draws schemas and values."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def odds(self, percent: float) -> bool:
        return self.chance.random() * 100 < percent

    # --- schemas ---

    def root(self) -> Schema:
        if self.odds(8):
            anything: Schema = {"type": "object", _PRESERVE: True}
            return {"type": "object", "properties": {"spec": anything, "status": dict(anything)}, _PRESERVE: True}
        properties = {"spec": self._part(), "status": self._part()}
        if self.odds(30):
            properties["data"] = self.schema(1)
        root: Schema = {"type": "object", "properties": properties}
        if self.odds(10):
            root[_PRESERVE] = True
        return root

    def _part(self) -> Schema:
        part = self._object(0)
        part["properties"]["replicas"] = {"type": "integer"}
        if self.odds(15):
            part[_PRESERVE] = True
        return part

    def schema(self, depth: int) -> Schema:
        makers: list[Callable[[int], Schema]] = [self._scalar]
        if depth < _DEPTH:
            makers += [self._object, self._map, self._list, self._list, self._open]
        schema = self.chance.choice(makers)(depth)
        if self.odds(15):
            schema["nullable"] = True
        if self.odds(15) and "type" in schema:
            default = self._fitting(schema)
            if "null" not in json.dumps(default):  # refused in most places
                schema["default"] = default
        return schema

    def _scalar(self, _depth: int = 0) -> Schema:
        choices: list[Schema] = [
            {"type": "string"},
            {"type": "string", "enum": ["a", "b", "c"]},
            {"type": "integer"},
            {"type": "integer", "maximum": 2},
            {"type": "number"},
            {"type": "boolean"},
            {"x-kubernetes-int-or-string": True},
        ]
        return copy.deepcopy(self.chance.choice(choices))

    def _object(self, depth: int) -> Schema:
        names = self.chance.sample(_NAMES, self.chance.randint(1, 4 if depth == 0 else 3))
        schema: Schema = {"type": "object", "properties": {name: self.schema(depth + 1) for name in names}}
        if depth and self.odds(25):
            schema["x-kubernetes-map-type"] = self.chance.choice(["atomic", "granular"])
        return schema

    def _map(self, depth: int) -> Schema:
        schema: Schema = {"type": "object", "additionalProperties": self.schema(depth + 1)}
        if self.odds(40):
            schema["x-kubernetes-map-type"] = self.chance.choice(["atomic", "granular"])
        return schema

    def _open(self, depth: int) -> Schema:
        """What takes members that it does not name."""
        schema: Schema = {_PRESERVE: True}
        if self.odds(70):
            schema["type"] = "object"
            if self.odds(40):
                schema["properties"] = {name: self.schema(depth + 1) for name in self.chance.sample(_NAMES, 2)}
            if self.odds(40):
                schema["x-kubernetes-embedded-resource"] = True
        return schema

    def _list(self, depth: int) -> Schema:
        match self.chance.choice(["", "atomic", "set", "set", "map", "map", "map"]):
            case "set":
                items = self._set_items()
                return {"type": "array", "x-kubernetes-list-type": "set", "items": items}
            case "map":
                return self._keyed(depth)
            case kind:
                more = {"x-kubernetes-list-type": kind} if kind else {}
                return {"type": "array", "items": self.schema(depth + 1), **more}

    def _set_items(self) -> Schema:
        if self.odds(80):
            scalars: list[Schema] = [{"type": "string"}, {"type": "integer"}, {"x-kubernetes-int-or-string": True}]
            return self.chance.choice(scalars)
        return {"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-map-type": "atomic"}

    def _keyed(self, depth: int) -> Schema:
        """A list of type map: each of its keys is required or has a default."""
        keys = ["k", "p"][: self.chance.randint(1, 2)]
        items = self._object(depth + 1)
        items.pop("x-kubernetes-map-type", None)
        required = []
        for key in keys:
            items["properties"][key] = {"type": "string"} if key == "k" else {"type": "integer"}
            if self.odds(40):
                items["properties"][key]["default"] = "a" if key == "k" else 1
            else:
                required.append(key)
        if required:
            items["required"] = required
        return {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items}

    def changed(self, root: Schema, *, fits: bool) -> Schema:
        """The schema of another version: most of it the same. fits: all that the one declares, the other declares too."""
        root = copy.deepcopy(root)
        for _ in range(self.chance.randint(1, 3)):
            properties = root["properties"][self.chance.choice(["spec", "status"])].setdefault("properties", {})
            name = self.chance.choice(_NAMES)
            match 3 if fits else self.chance.randrange(4):
                case 0:
                    properties.pop(name, None)
                case 1:
                    properties[name] = self.schema(1)
                case _ if properties:
                    self._retype(self.chance.choice(list(properties.values())))
        return root

    def _retype(self, schema: Schema) -> None:
        """Another kind of list or map, of the same items."""
        kind = schema.get("x-kubernetes-list-type")
        if len(schema.get("x-kubernetes-list-map-keys", ())) > 1 and self.odds(50):
            schema["x-kubernetes-list-map-keys"] = ["k"]
        elif kind in ("", "atomic") and schema["items"].get("type") in ("string", "integer"):
            schema["x-kubernetes-list-type"] = "set"
            schema["items"].pop("nullable", None)
        elif kind in ("set", "map"):
            schema.pop("x-kubernetes-list-map-keys", None)
            schema["x-kubernetes-list-type"] = "atomic"
        elif schema.get("x-kubernetes-map-type") == "atomic":
            del schema["x-kubernetes-map-type"]
        elif schema.get("type") == "object" and "x-kubernetes-embedded-resource" not in schema and _PRESERVE not in schema:
            schema["x-kubernetes-map-type"] = "atomic"

    # --- values ---

    def _fitting(self, schema: Schema) -> Any:
        return Generator(random.Random(self.chance.random())).value(schema, mistakes=False)

    def obj(self, root: Schema, *, mistakes: bool = True) -> dict[str, Any]:
        """The members of an object beside its metadata."""
        value: dict[str, Any] = self.value(root, mistakes=False, most=1)
        for part in ("spec", "status", "data"):
            schema = root["properties"].get(part)
            if part in value and schema is not None:
                value[part] = self.value(schema, mistakes=mistakes)
        return value

    def value(self, schema: Schema, *, mistakes: bool = True, depth: int = 0, most: float = 0.5) -> Any:
        if mistakes and self.odds(0.8):
            return self.anything()
        if schema.get("nullable") and self.odds(15):
            return None
        if "x-kubernetes-int-or-string" in schema:
            return self.chance.choice(["a", "1", 1, 2])
        if "enum" in schema:
            return self.chance.choice(schema["enum"])
        match schema.get("type"):
            case "string":
                return self.chance.choice(["a", "b", "c", ""])
            case "integer":
                return self.chance.randint(0, 2)
            case "number":
                return self.chance.choice([0, 1, 1.5, 2])
            case "boolean":
                return self.odds(50)
            case "array":
                return self._items(schema, mistakes, depth)
            case "object":
                return self._members(schema, mistakes, depth, most)
        return self.anything()

    def _members(self, schema: Schema, mistakes: bool, depth: int, most: float) -> Any:
        properties = schema.get("properties", {})
        required = schema.get("required", ())
        out = {
            name: self.value(each, mistakes=mistakes, depth=depth + 1)
            for name, each in properties.items()
            if self.chance.random() < most or (name in required and not (mistakes and self.odds(2)))
        }
        if "additionalProperties" in schema:
            for name in self.chance.sample(_NAMES, self.chance.randint(0, 3)):
                out[name] = self.value(schema["additionalProperties"], mistakes=mistakes, depth=depth + 1)
        if schema.get(_PRESERVE) and self.odds(60):
            for name in self.chance.sample(_NAMES, 2):
                out.setdefault(name, self.anything())
        if schema.get("x-kubernetes-embedded-resource") and not (mistakes and self.odds(5)):
            out |= {"apiVersion": "v1", "kind": "Inner"}
            if self.odds(60):
                out["metadata"] = {"name": self.chance.choice(_NAMES), "labels": {self.chance.choice(_NAMES): "x"}}
        if mistakes and self.odds(1):
            out["unknown"] = self.anything()
        return out

    def _items(self, schema: Schema, mistakes: bool, depth: int) -> list[Any]:
        kind = schema.get("x-kubernetes-list-type")
        count = self.chance.choice([0, 1, 1, 2, 3])
        items = [self.value(schema["items"], mistakes=mistakes, depth=depth + 1) for _ in range(count)]
        for item in items if kind == "map" else ():
            for key in schema["x-kubernetes-list-map-keys"]:
                if isinstance(item, dict) and isinstance(item.get(key), dict | list):
                    item[key] = True  # kube-apiserver prints maps in paths in any order
        if kind not in ("set", "map") or (mistakes and self.odds(4)):
            return items
        keys = schema.get("x-kubernetes-list-map-keys")
        properties = schema["items"].get("properties", {})
        seen = []
        out = []
        for item in items:
            key = item
            if keys and isinstance(item, dict):
                key = [item.get(each, properties[each].get("default")) for each in keys]
            # An item without any member kube-apiserver takes for null when it is applied again.
            if key not in seen and item != {}:
                seen.append(key)
                out.append(item)
        return out

    def anything(self, depth: int = 0) -> Any:
        choices: list[Any] = ["a", "b", 0, 1, 1.5, True, None, {}, []]
        if depth < 2:
            choices += [
                {name: self.anything(depth + 1) for name in self.chance.sample(_NAMES, 2)},
                [self.anything(depth + 1) for _ in range(2)],
            ]
        return self.chance.choice(choices)

    def mixed(self, old: Any, new: Any) -> Any:
        """Some of the old and some of the new."""
        if isinstance(old, dict) and isinstance(new, dict):
            out = {}
            for name in [*old, *(name for name in new if name not in old)]:
                if name in old and name in new:
                    out[name] = self.mixed(old[name], new[name])
                elif self.odds(75):
                    out[name] = old.get(name, new.get(name))
            return out
        if isinstance(old, list) and isinstance(new, list) and self.odds(60):
            out_list = [item for item in old if self.odds(80)]
            return out_list + [item for item in new if item not in out_list]
        return old if self.odds(60) else new


def definition(seed: str, number: int) -> Definition:
    draw = Generator(random.Random(f"{seed} definition {number}"))
    plural = f"owned{number}s"
    first = draw.root()
    fits = draw.odds(65)
    others = [draw.changed(first, fits=fits) if draw.odds(70) else first for _ in range(3)]
    schemas = {"v1": first, "v2": others[0], "v3": others[1]}
    after = {"v1": others[2], "v2": others[0]}
    status = {version: draw.odds(85) for version in schemas}
    scale = {version: status[version] and draw.odds(70) for version in schemas}

    def manifest(written: dict[str, Schema], marker: str) -> dict[str, Any]:
        versions = []
        for name in (*written, marker):
            version: dict[str, Any] = {"name": name, "served": True, "storage": name == "v1"}
            version["schema"] = {"openAPIV3Schema": written.get(name, {"type": "object", _PRESERVE: True})}
            subresources: dict[str, Any] = {"status": {}} if status.get(name) else {}
            if scale.get(name):
                paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
                subresources["scale"] = paths
            versions.append(version | ({"subresources": subresources} if subresources else {}))
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"plural": plural, "singular": plural[:-1], "kind": f"Owned{number}", "listKind": f"Owned{number}List"},
                "versions": versions,
            },
        }

    return Definition(
        plural,
        manifest(schemas, "m1"),
        manifest(after, "m2"),
        "m1",
        "m2",
        tuple(schemas),
        tuple(version for version in schemas if scale[version]),
        schemas,
    )
