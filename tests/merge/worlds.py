"""Random schemas, values and questions about their merging, which tests/controlplane/merger answers by upstream's code."""

from __future__ import annotations

import copy
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aggserver.merge import atom, fieldset, removing
from aggserver.merge.comparing import compare
from aggserver.merge.managers import ConflictsError, FieldUpdater, Manager, Owned, Typed
from aggserver.merge.merging import merge
from aggserver.merge.typed import TypedError, field_set, validate
from aggserver.meta.json_types import JSONObject
from aggserver.schema import structural

__all__ = ["Upstream", "an_object", "answer", "changed_schema", "comparable", "object_schema", "questions"]

NAMES = ["a", "b", "c", "d"]
VERSION = "v1"


class Upstream:
    """structured-merge-diff in a process of its own."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, question: JSONObject) -> JSONObject:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        told: JSONObject = json.loads(self._process.stdout.readline())
        assert "failed" not in told, told
        return told

    def close(self) -> None:
        self._process.communicate()


def questions(seed: int, upstream: Upstream) -> Iterator[tuple[JSONObject, JSONObject]]:
    """(question, upstream's answer): of single values, and of a history in which each answer leads to the next question."""
    chance = random.Random(seed)
    schema = object_schema(chance)

    def ask(do: str, **more: Any) -> tuple[JSONObject, JSONObject]:
        question = {"do": do, "schema": schema, **more}
        return question, upstream(question)

    live, new = an_object(chance, schema), an_object(chance, schema)
    yield ask("validate", live=an_object(chance, schema, wrong=0.05))
    yield ask("validate", live=live)
    yield ask("compare", live=live, new=new)
    yield ask("merge", live=live, new=new)
    for value in (live, new):
        question, told = ask("fields", live=value)
        yield question, told
        if "fields" in told:
            for do in ("remove", "reconcile"):
                yield ask(do, live=live, fields=told["fields"])
            changed = changed_schema(chance, schema)
            question = {"do": "reconcile", "schema": changed, "live": live, "fields": told["fields"]}
            yield question, upstream(question)
    yield from _history(chance, schema, ask)


def _history(chance: random.Random, schema: JSONObject | None, ask: Any) -> Iterator[tuple[JSONObject, JSONObject]]:
    live: JSONObject = {}
    managers: JSONObject = {}
    for _ in range(8):
        do = chance.choice(["apply", "apply", "update"])
        manager = chance.choice(["first", "second"] if do == "apply" else ["third", "fourth"])
        new = an_object(chance, schema)
        if do == "update" and chance.random() < 0.5:
            kept = {name: value for name, value in copy.deepcopy(live).items() if chance.random() < 0.7}
            new = kept | {name: value for name, value in new.items() if chance.random() < 0.5}
        question, told = ask(do, live=live, new=new, managers=managers, manager=manager, force=chance.random() < 0.6)
        yield question, told
        if "managers" in told:
            managers = told["managers"]
            live = new if do == "update" else told.get("object", live) or {}


def object_schema(chance: random.Random) -> JSONObject | None:
    if chance.random() < 0.1:
        return None
    while True:
        made = _schema(chance, 3)
        if made.get("type") == "object" and "x-kubernetes-map-type" not in made:
            return made


def changed_schema(chance: random.Random, schema: Any) -> Any:
    """The schema with other types of lists and maps, which the same values fit."""
    if not isinstance(schema, dict):
        return schema
    made = {name: changed_schema(chance, inner) for name, inner in schema.items()}
    if "properties" in schema:
        made["properties"] = {name: changed_schema(chance, inner) for name, inner in schema["properties"].items()}
    if schema.get("type") == "array" and chance.random() < 0.4:
        made.pop(structural.LIST_TYPE, None)
        made.pop(structural.LIST_MAP_KEYS, None)
    if schema.get("type") == "object" and chance.random() < 0.2:
        made[structural.MAP_TYPE] = chance.choice(["atomic", "granular"])
    return made


def _schema(chance: random.Random, depth: int) -> JSONObject:
    scalars = ["string", "integer", "boolean", "number"]
    kind = chance.choice([*scalars, "object", "object", "array", "array", "array", "any", "either"] if depth else scalars)
    if kind in scalars:
        return {"type": kind, "format": "date-time"} if kind == "string" and chance.random() < 0.2 else {"type": kind}
    if kind == "any":
        return {structural.PRESERVE: True}
    if kind == "either":
        return {structural.INT_OR_STRING: True}
    return _map_schema(chance, depth) if kind == "object" else _list_schema(chance, depth)


def _map_schema(chance: random.Random, depth: int) -> JSONObject:
    made: JSONObject = {"type": "object"}
    what = chance.random()
    if what < 0.25:
        made["additionalProperties"] = _schema(chance, depth - 1)
    elif what < 0.9:
        made["properties"] = {name: _schema(chance, depth - 1) for name in chance.sample(NAMES, chance.randint(1, 4))}
    if chance.random() < 0.15:
        made[structural.MAP_TYPE] = "atomic"
    if chance.random() < 0.15:
        made[structural.PRESERVE] = True
    return made


def _list_schema(chance: random.Random, depth: int) -> JSONObject:
    kind = chance.choice(["atomic", "set", "map", "map"])
    made: JSONObject = {"type": "array"}
    if kind != "atomic" or chance.random() < 0.5:
        made[structural.LIST_TYPE] = kind
    if kind == "atomic":
        return made | {"items": _schema(chance, depth - 1)}
    if kind == "set":
        return made | {"items": {"type": chance.choice(["string", "integer", "boolean"])}}
    properties = {name: _schema(chance, depth - 1) for name in chance.sample(["c", "d"], chance.randint(0, 2))}
    keys = chance.sample(["a", "b"], chance.randint(1, 2))
    for name in keys:
        scalar = chance.choice(["string", "integer"])
        default = {"default": "x" if scalar == "string" else 1} if chance.random() < 0.3 else {}
        properties[name] = {"type": scalar} | default
    return made | {"items": {"type": "object", "properties": properties}, structural.LIST_MAP_KEYS: keys}


def an_object(chance: random.Random, schema: JSONObject | None, wrong: float = 0.0) -> JSONObject:
    if schema is None:
        return {name: _anything(chance, 3) for name in NAMES[:3]}
    return _value(chance, schema, wrong) or {}


def _anything(chance: random.Random, depth: int = 2) -> Any:
    what = chance.random()
    if depth and what < 0.25:
        return {name: _anything(chance, depth - 1) for name in chance.sample(NAMES, chance.randint(0, 2))}
    if depth and what < 0.4:
        return [_anything(chance, depth - 1) for _ in range(chance.randint(0, 2))]
    return chance.choice([None, 1, 2, 1.5, "x", "y", True, False, 10])


_SCALARS: dict[str, list[Any]] = {
    "string": ["x", "y", "z", ""],
    "integer": [1, 2, 9, 10],
    "number": [1, 1.5, 2.5],
    "boolean": [True, False],
}


def _value(chance: random.Random, schema: JSONObject, wrong: float) -> Any:
    if chance.random() < 0.05:
        return None
    if wrong and chance.random() < wrong:
        return _anything(chance)
    kind = schema.get("type")
    if kind in _SCALARS:
        return chance.choice(_SCALARS[kind])
    if kind == "object":
        return _map(chance, schema, wrong)
    if kind == "array":
        return _list(chance, schema, wrong)
    return chance.choice([1, 2, "x", "10%"]) if structural.INT_OR_STRING in schema else _anything(chance)


def _map(chance: random.Random, schema: JSONObject, wrong: float) -> JSONObject:
    properties = schema.get("properties", {})
    out = {name: _value(chance, inner, wrong) for name, inner in properties.items() if chance.random() < 0.6}
    if "additionalProperties" in schema:
        for name in chance.sample(NAMES, chance.randint(0, 3)):
            out[name] = _value(chance, schema["additionalProperties"], wrong)
    elif not properties or structural.PRESERVE in schema:
        out |= {name: _anything(chance) for name in chance.sample(["k", "l"], chance.randint(0, 2))}
    return out


def _list(chance: random.Random, schema: JSONObject, wrong: float) -> list[Any]:
    items = [_value(chance, schema["items"], wrong) for _ in range(chance.randint(0, 4))]
    if schema.get(structural.LIST_TYPE, "atomic") == "atomic":
        return items
    items = [item for item in items if item is not None]
    keys = schema.get(structural.LIST_MAP_KEYS, [])
    for item in items:
        if isinstance(item, dict):
            for name in keys:
                if isinstance(item.get(name), dict | list):
                    del item[name]  # upstream's texts show it in the order of a Go map
                if chance.random() < 0.9 and item.get(name) is None:
                    item[name] = chance.choice(_SCALARS[schema["items"]["properties"][name]["type"]][:2])
    if chance.random() < 0.2:
        return items  # some of them twice, perhaps
    told_apart = {
        json.dumps([item.get(name) for name in keys] if keys and isinstance(item, dict) else item): item for item in items
    }
    return list(told_apart.values())


def answer(question: JSONObject) -> JSONObject:
    """Ours, in the form of upstream's."""
    schema = question["schema"]
    kind = atom.DEDUCED if schema is None else atom.of_schema(structural.compile(schema))
    try:
        return _answer(question["do"], copy.deepcopy(question), kind)
    except ConflictsError as error:
        return {"conflicts": sorted(f"{each.manager.name} {fieldset.path_text(each.path)}" for each in error.conflicts)}
    except TypedError as error:
        return {"error": str(error)}


def _answer(do: str, question: JSONObject, kind: atom.Atom) -> JSONObject:
    live, new = question["live"], question.get("new")
    validate(live, kind, allow_duplicates=do != "validate")
    if do == "validate":
        return {}
    if do == "fields":
        return {"fields": fieldset.ordered(field_set(live, kind))}
    if "fields" in question:
        fields = fieldset.parse(question["fields"])
        if do == "reconcile":
            return {"fields": fieldset.ordered(removing.reconcile(fields, kind))}
        return {"object": removing.remove(live, fields, kind)}
    validate(new, kind, allow_duplicates=do in ("compare", "update"))
    if do == "compare":
        found = compare(live, new, kind)
        return {name: fieldset.ordered(getattr(found, name)) for name in ("removed", "modified", "added")}
    if do == "merge":
        return {"object": merge(live, new, kind)}
    return _written(do, question, Typed(live, kind, VERSION), Typed(new or {}, kind, VERSION))


def _written(do: str, question: JSONObject, live: Typed, new: Typed) -> JSONObject:
    managers = {
        Manager(name, "Apply" if owned["applied"] else "Update"): Owned(
            fieldset.parse(owned["fields"]), VERSION, owned["applied"]
        )
        for name, owned in question["managers"].items()
    }
    manager = Manager(question["manager"], "Apply" if do == "apply" else "Update")
    updater = FieldUpdater(lambda typed, _: typed, {})
    out: JSONObject = {}
    if do == "update":
        managers = updater.update(live, new, managers, manager)
    else:
        made, managers = updater.apply(live, new, managers, manager, force=question["force"])
        if made is not None:
            out["object"] = made.value
    return out | {
        "managers": {
            each.name: {"fields": fieldset.ordered(owned.fields), "applied": owned.applied} for each, owned in managers.items()
        }
    }


def comparable(question: JSONObject, told: JSONObject) -> Any:
    """What of an answer has to be equal, as text with members in one order: that of fieldsV1 is not here what it is there.

    The lines of an error are in the order of a Go map; that there is one is what counts where upstream
    answers a merge or a comparison so. An object that loses all is null upstream, where whole objects always have a kind.
    """
    if "error" in told:
        return sorted(told["error"].split("\n")) if question["do"] == "validate" else "an error"
    made = {name: value for name, value in told.items() if name != "object"}
    managers = sorted(made.pop("managers", {}).items())
    value = json.dumps(told.get("object") or {} if question["do"] == "apply" else told.get("object"), sort_keys=True)
    texts = (json.dumps(each, sort_keys=True) for each in (sorted(made.items()), managers))
    return *texts, value, "object" in told
