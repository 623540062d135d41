"""PodResizeValidator: a Pod on a node may not grow beyond what the node can allocate, and the node must run Linux.

Pure. Source: k8s.io/kubernetes plugin/pkg/admission/podresize/admission.go, v1.36.3.
"""

from __future__ import annotations

from typing import NamedTuple

from aggserver.kinds.resources import pod_requests
from aggserver.meta import quantity
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.quantity import Quantity

__all__ = ["ResizeProblem", "resize_problem"]

_OS = "kubernetes.io/os"


class ResizeProblem(NamedTuple):
    """Why a resize is refused. cause: the reason of the only cause in the Status."""

    message: str
    cause: str


def resize_problem(pod: JSONMapping, node: JSONMapping) -> ResizeProblem | None:
    """Why the Pod, as it is to be, does not fit the node; None if it does."""
    metadata = node["metadata"]
    system = (metadata.get("labels") or {}).get(_OS, "linux")
    if system != "linux":
        where = f"node {quote(metadata['name'])} is {quote(system)}"
        return ResizeProblem(f"pod resize is only supported on linux nodes, {where}", "UnsupportedPlatform")
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    # Of CPU in thousandths, as upstream prints them.
    amounts = ((name, scale, _requested(pod["spec"], name), _read(allocatable.get(name))) for name, scale in _SCALES.items())
    over = [
        f"{name}, requested: {wanted.rounded(scale)}, allocatable: {there.rounded(scale)}"
        for name, scale, wanted, there in amounts
        if wanted.compare(there) > 0
    ]
    if over:
        return ResizeProblem(f"node didn't have enough allocatable resources: {'; '.join(over)}", "NodeCapacity")
    return None


_SCALES = {"cpu": -3, "memory": 0}


def _requested(spec: JSONMapping, name: str) -> Quantity:
    whole = ((spec.get("resources") or {}).get("requests") or {}).get(name)
    requested = _read(pod_requests(spec).get(name) if whole is None else whole)
    return requested.add(_read((spec.get("overhead") or {}).get(name)))


def _read(amount: str | None) -> Quantity:
    return quantity.parse(str(amount or "0"))
