"""Pods and workloads of `random_pods.py`, by their seeds, and how kube-apiserver and aggserver judge them. Nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from tests.integration.random_pods import spoiled, valid, workload
from tests.integration.sides import Side

__all__ = ["DRAWN", "NAMESPACE", "Asked", "answered", "difference", "named"]

NAMESPACE = "same-pods"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_JSON = {"content-type": "application/json", "accept": "application/json"}

# (the path of the collection, the object)
Asked = tuple[str, Any]


def named(pod: Any) -> Asked:
    pod["metadata"]["name"] = "p"
    return _PODS, pod


def _workload(seed: int) -> Asked:
    path, body = workload(Random(seed))
    return path.format(NAMESPACE), body


DRAWN: Mapping[str, Callable[[int], Asked]] = {
    "valid": lambda seed: named(valid(Random(seed))),
    "spoiled": lambda seed: named(spoiled(Random(seed), 1 + seed % 3)[0]),
    "workload": _workload,
}
"""By their name, what is drawn for a seed."""


def answered(side: Side, asked: Asked) -> tuple[int, list[str]]:
    """The status, and the errors in their order."""
    path, body = asked
    answer = side.client.request("POST", f"{path}?dryRun=All", _JSON, json.dumps(body).encode())
    status = json.loads(answer.body)
    if answer.status < 300:
        return answer.status, []
    causes = (status.get("details") or {}).get("causes")
    return answer.status, [json.dumps(cause) for cause in causes] if causes else [status["message"]]


def difference(sides: tuple[Side, Side], asked: Asked, *, in_order: bool = True) -> str:
    """How the answers differ, '' if they do not. in_order: whether the order of the errors counts."""
    upstream, ours = (answered(side, asked) for side in sides)
    if upstream == ours or (not in_order and (upstream[0], sorted(upstream[1])) == (ours[0], sorted(ours[1]))):
        return ""
    return f"\n  upstream {upstream}\n  ours     {ours}\n  {json.dumps(asked[1])}"
