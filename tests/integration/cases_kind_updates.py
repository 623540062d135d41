"""Cases for `test_same_kinds.py`: what an update of a built-in kind may change, and in which words others are refused."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Ask, Cases, ask
from tests.integration.kinds import minimal, on

__all__ = ["CASES"]

_SPACE = "/api/v1/namespaces/$name"
_CONDITION = {"type": "Own", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}


def _namespace(**members: Any) -> Any:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$name"}, **members}


def _space_status(method: str, body: Any, kind: str = "application/json") -> Ask:
    return ask(method, f"{_SPACE}/status", body, kind=kind)


_NAMESPACES: Cases = {
    "namespace-status-without-phase": [
        ask("POST", "/api/v1/namespaces", _namespace(), compared=False),
        _space_status("PUT", _namespace(status={"conditions": [_CONDITION]})),
        _space_status("PUT", _namespace(status={"phase": ""})),
        _space_status("PUT", _namespace(status=None)),
        _space_status("PUT", _namespace()),
        _space_status("PATCH", {"status": {"phase": None, "conditions": [_CONDITION]}}, MERGE_PATCH),
        _space_status("PATCH", {"status": None}, MERGE_PATCH),
        _space_status("PATCH", [{"op": "remove", "path": "/status/phase"}], JSON_PATCH),
        _space_status("PATCH", _namespace(status={"conditions": [_CONDITION]}), APPLY_PATCH),
        _space_status("PATCH", {"status": {"phase": "Other"}}, MERGE_PATCH),
        ask("DELETE", _SPACE, compared=False),
    ],
}

CASES: Cases = _NAMESPACES
