"""The tables of aggserver/scheme: `python -m tests.scheme.tables` writes them anew.

Go's side (`tests/controlplane/types`) prints the types with what their tags say. The markers beside them come from the OpenAPI v3
documents of a real kube-apiserver: which lists are maps or sets, what is atomic, what is required, enums and defaults. Only what
does not follow from the tags is written (see `aggserver/scheme/types.py`). No descriptions are carried over. What it refuses is
found out by asking it (`checks.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from aggserver.scheme import openapi, types
from tests.controlplane.binaries import obtain, obtain_program
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.scheme.checks import answered, asking, checks

__all__ = ["FOLDER", "made_anew", "models_of", "served_models"]

FOLDER = Path(types.__file__).with_name("tables")

Model = dict[str, Any]
# A line of a table as words, and the lines of its members.
_Declared = tuple[list[str], list[list[str]]]


def made_anew(models: Mapping[str, Model], checked: str, say: Callable[[str], None]) -> dict[str, str]:
    """All tables by the names of their files. models: those of OpenAPI, by their names. checked: the result of `checks`."""
    program = obtain_program("types", os.environ, say)
    packages = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    declared: dict[str, dict[str, _Declared]] = {}
    for package in packages:
        printed = subprocess.run([program, package], capture_output=True, text=True, check=True).stdout
        declared[package] = _parsed(printed)
    by_type = {openapi.type_name(name): model for name, model in models.items()}
    for package, kinds in declared.items():
        for name, (head, members) in kinds.items():
            if (model := by_type.get(f"{package}.{name}")) is not None and head[1] == "struct":
                _mark(declared, package, head, members, model)
    tables = {f"{package.replace('/', '_')}.txt": _written(kinds) for package, kinds in declared.items()}
    return {**tables, "checks.txt": checked}


def _parsed(printed: str) -> dict[str, _Declared]:
    declared: dict[str, _Declared] = {}
    for line in printed.splitlines():
        if line.startswith(" "):
            next(reversed(declared.values()))[1].append(line.split())
        else:
            declared[line.split()[0]] = (line.split(), [])
    return declared


def _written(declared: Mapping[str, _Declared]) -> str:
    return "".join(
        f"{' '.join(head)}\n" + "".join(f"  {' '.join(member)}\n" for member in members) for head, members in declared.values()
    )


def _mark(
    declared: Mapping[str, Mapping[str, _Declared]], package: str, head: list[str], members: list[list[str]], model: Model
) -> None:
    """Add the words for what the model of a struct says beyond its tags."""
    _add(head, [f"map={kind}" for kind in [model.get("x-kubernetes-map-type")] if kind])
    for union in model.get("x-kubernetes-unions", []):
        _add(head, [f"union={union.get('discriminator', '')}:{','.join(union['fields-to-discriminateBy'])}"])
    required = model.get("required", [])
    for words in members:
        name, of, _, *rest = words
        if "inline" in rest:
            inner, _, short = (f"{package}.{of}" if "/" not in of else of).rpartition(".")
            if short != "TypeMeta":
                _mark(declared, inner, [], declared[inner][short][1], {**model, "x-kubernetes-unions": []})
            continue
        schema = model["properties"].get(name)
        if schema is None:
            continue
        omits = "omitempty" in rest or "omitzero" in rest
        if (name in required) is omits:
            _add(words, ["required" if omits else "optional"])
        kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys", [])
        _add(words, [f"list={kind}:{','.join(keys)}".removesuffix(":")] if kind else [])
        _add(words, [f"map={schema['x-kubernetes-map-type']}"] if "x-kubernetes-map-type" in schema else [])
        _add(words, ["bare"] if "$ref" in schema else [])
        _mark_value(declared, package, words, of, schema, omits=omits)


def _mark_value(
    declared: Mapping[str, Mapping[str, _Declared]], package: str, words: list[str], of: str, schema: Model, *, omits: bool
) -> None:
    pointer, of = of.startswith("*"), of.removeprefix("*")
    for inner in (schema, schema.get("items", {}), schema.get("additionalProperties", {})):
        if "enum" in inner:
            element = of.removeprefix("[]").removeprefix("map[string]")
            home, _, short = (f"{package}.{element}" if "/" not in element else element).rpartition(".")
            values = ",".join(inner["enum"])
            assert "%" not in values
            _add(declared[home][short][0], [f"enum={values.replace(' ', '%20')}"])
    default = schema.get("default")
    if default is not None and (default not in ({}, "", 0, False) or pointer or (omits and default != {})):
        _add(words, [f"default={json.dumps(default, separators=(',', ':'))}"])


def _add(words: list[str], more: list[str]) -> None:
    for word in more:
        key = word.partition("=")[0]
        assert all(each == word for each in words if each.startswith(f"{key}=")), (words, word)
        if word not in words:
            words.append(word)


def models_of(documents: Iterable[Model]) -> dict[str, Model]:
    """The models of some documents, without descriptions."""
    models: dict[str, Model] = {}
    for document in documents:
        models |= _without_descriptions(document.get("components", {}).get("schemas", {}))
    return models


def _without_descriptions(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_without_descriptions, value))
    if not isinstance(value, dict):
        return value
    # A member may be named description, too.
    return {
        key: _without_descriptions(inner) for key, inner in value.items() if not (key == "description" and isinstance(inner, str))
    }


def served_models(cluster: Cluster) -> dict[str, Model]:
    """The models of Kubernetes' own groups that a control plane publishes: other tests bring groups, and remove them."""

    def document(path: str) -> Model:
        read: Model = json.loads(cluster.kubectl("get", "--raw", path).stdout)
        return read

    names = document("/openapi/v3")["paths"]
    return models_of(document(f"/openapi/v3/{name}") for name in names if _is_own(name))


def _is_own(name: str) -> bool:
    """name: as `apis/apps/v1` or `api/v1`."""
    group = name.split("/")[1] if name.startswith("apis/") else ""
    return "." not in group or group.endswith(".k8s.io")


def main() -> None:
    def say(line: str) -> None:
        print(line, file=sys.stderr)

    def write(checked: str) -> None:
        for name, text in made_anew(models, checked, say).items():
            (FOLDER / name).write_text(text)

    with ControlPlane(obtain(os.environ, say)) as plane:
        models = served_models(plane)
        # The types first: what is asked about those of a new kind is read from their tables.
        write((FOLDER / "checks.txt").read_text())
        with asking(plane) as ask:
            checked = checks(answered(ask))
    write(checked)


if __name__ == "__main__":
    main()
