"""The rows that kube-apiserver shows of the objects of tests/cases/kinds/shown.yaml. None of them is kept.

`python -m tests.integration.shown KUBECONFIG` writes tests/cases/kinds/tables.yaml anew. `tests/kinds/test_columns.py` holds our
tables to that file, and `test_created.py` the file to kube-apiserver.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.cases.kind_objects import TABLES, shown, without_ages
from tests.integration.created import collection
from tests.integration.raw import Client

__all__ = ["ask", "shown_tables"]

_HEAD = """\
# How kube-apiserver shows the objects of shown.yaml in tables, made by `python -m tests.integration.shown`: columns (name, type,
# format, priority) and rows (cells, conditions). AGE stands for the time since something happened.
"""
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_FINALIZER = "example.com/shown"


def shown_tables(client: Client) -> dict[str, Any]:
    """As `tests.cases.kind_objects.tables` reads them."""
    found: dict[str, Any] = {}
    for type_name, name, obj in shown():
        table = _shown(client, collection(type_name, obj["metadata"].get("namespace", "")), obj)
        columns = [[each[key] for key in ("name", "type", "format", "priority")] for each in table["columnDefinitions"]]
        (row,) = table["rows"]
        kept = {"cells": without_ages(row["cells"], columns)} | ({"conditions": row["conditions"]} if "conditions" in row else {})
        kind = found.setdefault(type_name, {"columns": columns, "rows": {}})
        assert kind["columns"] == columns
        kind["rows"][name] = kept
    return found


def _shown(client: Client, path: str, obj: dict[str, Any]) -> Any:
    deleted = obj.pop("deleted", False)
    if not deleted and "status" not in obj:
        # Not kept: the garbage collector does not wait where there is no owner.
        return ask(client, "POST", f"{path}?dryRun=All", obj, accept=_TABLE)
    if deleted:
        obj["metadata"]["finalizers"] = [_FINALIZER]
    at = f"{path}/{obj['metadata']['name']}"
    made = ask(client, "POST", path, obj)
    try:
        if "status" in obj:
            ask(client, "PUT", f"{at}/status", {**made, "status": obj["status"]})
        if deleted:
            ask(client, "DELETE", at, {"gracePeriodSeconds": 0})
        return ask(client, "GET", at, accept=_TABLE)
    finally:
        if not deleted:
            ask(client, "DELETE", at, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        if deleted or made["metadata"].get("finalizers"):
            _free(client, at)


def _free(client: Client, path: str) -> None:
    """Let a deleted object go; one that a protection controller has let go already is not found."""
    free = b'{"metadata":{"finalizers":null}}'
    answer = client.request("PATCH", path, {"content-type": "application/merge-patch+json"}, free)
    assert answer.status in (200, 404), answer.body


def ask(
    client: Client,
    method: str,
    path: str,
    body: Any = None,
    accept: str = "application/json",
    media_type: str = "application/json",
) -> Any:
    """The answer, decoded. body: an object, or bytes."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.request(method, path, {"accept": accept, "content-type": media_type}, data)
    assert answer.status < 300, f"{method} {path}: {answer.body.decode()}"
    return json.loads(answer.body)


def _write(tables: dict[str, Any]) -> None:
    lines = []
    for type_name, table in tables.items():
        lines.append(f"{type_name}:\n  columns: {json.dumps(table['columns'])}\n  rows:\n")
        lines += [f"    {name}: {json.dumps(row)}\n" for name, row in table["rows"].items()]
    TABLES.write_text(_HEAD + "".join(lines))


if __name__ == "__main__":
    with Client(Path(sys.argv[1])) as made:
        _write(shown_tables(made))
