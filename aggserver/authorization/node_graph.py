"""NodeGraph: which objects concern a node: its Pods, and what these refer to, as far as a kubelet needs it.

    Pod                          -> its node
    Secret, ConfigMap, ...       -> the nodes of the Pods that refer to them
    PersistentVolume             -> the nodes of its claim
    Secret of a PersistentVolume -> the nodes of the volume's claim
    VolumeAttachment, ResourceSlice -> the node that they name

Each question costs some look-ups, however many Pods share an object: for each object the nodes are counted.
Pure. Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/node/graph.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

__all__ = ["GraphRef", "NodeGraph", "Placed", "Volume"]

K = TypeVar("K")
V = TypeVar("V")


class GraphRef(NamedTuple):
    """An object, by the plural of its kind. namespace: '' for a cluster-scoped one."""

    resource: str
    namespace: str
    name: str


class Placed(NamedTuple):
    """What is known of an object that is on a node: the node, and what the object lets it read."""

    node: str
    used: Sequence[GraphRef] = ()


class Volume(NamedTuple):
    """What is known of a PersistentVolume: its claim, and the Secrets that a kubelet needs to mount it."""

    claim: GraphRef
    secrets: Sequence[GraphRef] = ()


class NodeGraph:
    """To be kept current by `place` and `put_volume`."""

    def __init__(self) -> None:
        self._placed: dict[GraphRef, Placed] = {}
        self._nodes: dict[GraphRef, dict[str, int]] = {}  # of what placed objects use: how many of each node use it
        self._claims: dict[str, dict[GraphRef, int]] = {}  # of each node: the claims that its Pods use
        self._volumes: dict[GraphRef, Volume] = {}
        self._claims_of: dict[GraphRef, dict[GraphRef, int]] = {}  # of each Secret of volumes: the claims of these

    def place(self, ref: GraphRef, placed: Placed | None) -> None:
        """Set where an object is, and what it uses; None for one that is gone, or on no node."""
        before = self._placed.pop(ref, None)
        if before is not None:
            for each in before.used:
                _take(self._nodes, each, before.node)
                if _is_claim(each):
                    _take(self._claims, before.node, each)
        if placed is None:
            return
        self._placed[ref] = placed
        for each in placed.used:
            _give(self._nodes, each, placed.node)
            if _is_claim(each):
                _give(self._claims, placed.node, each)

    def put_volume(self, ref: GraphRef, volume: Volume | None) -> None:
        """Set the claim and the Secrets of a PersistentVolume; None for one that is gone, or has no claim."""
        before = self._volumes.pop(ref, None)
        if before is not None:
            for secret in before.secrets:
                _take(self._claims_of, secret, before.claim)
        if volume is None:
            return
        self._volumes[ref] = volume
        for secret in volume.secrets:
            _give(self._claims_of, secret, volume.claim)

    def leads_to(self, ref: GraphRef, node: str) -> bool:
        """Whether an object concerns a node."""
        placed = self._placed.get(ref)
        if placed is not None:
            return placed.node == node
        if node in self._nodes.get(ref, ()):
            return True
        volume = self._volumes.get(ref)
        if volume is not None:
            return node in self._nodes.get(volume.claim, ())
        # One Secret may be that of all volumes, so the claims of the node are looked for in its claims, or the other way round.
        return not self._claims_of.get(ref, {}).keys().isdisjoint(self._claims.get(node, {}).keys())


def _is_claim(ref: GraphRef) -> bool:
    return ref.resource == "persistentvolumeclaims"


def _give(counts: dict[K, dict[V, int]], key: K, value: V) -> None:
    of_key = counts.setdefault(key, {})
    of_key[value] = of_key.get(value, 0) + 1


def _take(counts: dict[K, dict[V, int]], key: K, value: V) -> None:
    of_key = counts[key]
    of_key[value] -= 1
    if not of_key[value]:
        del of_key[value]
        if not of_key:
            del counts[key]
