"""NodeFollower: keeps the graph by which kubelets are authorized, from the Pods, volumes, attachments and slices that are stored.

Nothing is read before a kubelet asks for something that depends on it. Of each Pod on a node, its node and the names of what it
refers to are kept.
Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/node/{graph,graph_populator}.go, v1.36.3.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aggserver.informers.informer import CallLater, TransformingInformer, call_later
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.store import Store

if TYPE_CHECKING:
    from aggserver.authorization.node_graph import GraphRef, NodeGraph, Placed, Volume

__all__ = ["NodeFollower"]

# Seconds that a request waits for the first reading before it fails.
_WAIT_SECONDS = 20.0


class NodeFollower:
    """`run` is the task. stores: returns the store of (group, resource)."""

    def __init__(self, stores: Callable[[str, str], Store], later: CallLater = call_later) -> None:
        self._stores = stores
        self._later = later
        self._wanted = asyncio.Event()
        self._ready: asyncio.Future[NodeGraph] | None = None

    async def graph(self) -> NodeGraph:
        """The graph, once all objects were read. Raises StatusError (500) if that takes too long."""
        self._wanted.set()
        ready = self._waited_for()
        if not ready.done():
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(ready), _WAIT_SECONDS)
        if not ready.done():
            raise errors.internal_error("what concerns the node could not be read")
        return ready.result()

    async def run(self) -> None:
        """Keep the graph up to date until cancelled, once it was asked for."""
        await self._wanted.wait()
        try:
            await self._follow()
        finally:
            # The graph is not kept up to date any more.
            if self._ready is not None and self._ready.done():
                self._ready = None

    def _waited_for(self) -> asyncio.Future[NodeGraph]:
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
        return self._ready

    async def _follow(self) -> None:
        from aggserver.authorization.node_graph import NodeGraph

        graph = NodeGraph()
        known = _Known()
        followers: list[TransformingInformer[Any]] = [
            self._placing(graph, "", "pods", known.of_pod),
            self._placing(graph, "storage.k8s.io", "volumeattachments", _of_named_node),
            self._placing(graph, "resource.k8s.io", "resourceslices", _of_named_node),
            self._volumes(graph),
        ]
        async with asyncio.TaskGroup() as tasks:
            for follower in followers:
                tasks.create_task(follower.run())
            for follower in followers:
                await follower.caught_up()
            self._waited_for().set_result(graph)

    def _placing(
        self, graph: NodeGraph, group: str, resource: str, keep: Callable[[JSONObject], Placed | None]
    ) -> TransformingInformer[Placed | None]:
        async def sync(key: str, placed: Placed | None) -> None:
            graph.place(_ref(resource, key), placed)

        return TransformingInformer(self._stores(group, resource), keep, sync, self._later)

    def _volumes(self, graph: NodeGraph) -> TransformingInformer[Volume | None]:
        async def sync(key: str, volume: Volume | None) -> None:
            graph.put_volume(_ref("persistentvolumes", key), volume)

        return TransformingInformer(self._stores("", "persistentvolumes"), _of_volume, sync, self._later)


def _ref(resource: str, key: str) -> GraphRef:
    from aggserver.authorization.node_graph import GraphRef

    namespace, _, name = key.rpartition("/")
    return GraphRef(resource, namespace, name)


# Sets of references that Pods share. With more, those of later Pods are kept for each.
_MOST_SHARED = 10_000


class _Known:
    """The references that Pods of one controller share, so that each set is kept once."""

    def __init__(self) -> None:
        self._sets: dict[tuple[GraphRef, ...], tuple[GraphRef, ...]] = {}

    def of_pod(self, pod: JSONObject) -> Placed | None:
        from aggserver.authorization.node_graph import Placed

        node = (pod.get("spec") or {}).get("nodeName")
        if not node:
            return None
        used = tuple(_used(pod))
        if len(self._sets) < _MOST_SHARED:
            used = self._sets.setdefault(used, used)
        return Placed(sys.intern(node), used)


def _used(pod: JSONObject) -> Iterable[GraphRef]:
    """What a Pod refers to, each once. A mirror Pod, which a kubelet has made, gives it access to nothing."""
    from aggserver.authorization.node_graph import GraphRef
    from aggserver.kinds import references

    if references.is_mirror(pod):
        return ()
    namespace, spec = pod["metadata"]["namespace"], pod["spec"]
    named = {
        "serviceaccounts": (spec.get("serviceAccountName") or "",),
        "secrets": references.secret_names(spec),
        "configmaps": references.config_map_names(spec),
        "persistentvolumeclaims": references.claim_names(pod),
        "resourceclaims": references.resource_claim_names(pod),
    }
    return dict.fromkeys(GraphRef(resource, namespace, name) for resource, names in named.items() for name in names if name)


def _of_named_node(obj: JSONObject) -> Placed | None:
    from aggserver.authorization.node_graph import Placed

    node = (obj.get("spec") or {}).get("nodeName")
    return Placed(sys.intern(node)) if node else None


def _of_volume(volume: JSONObject) -> Volume | None:
    from aggserver.authorization.node_graph import GraphRef, Volume
    from aggserver.kinds.references import kubelet_secrets

    claim = (volume.get("spec") or {}).get("claimRef")
    if claim is None:
        return None
    of_claim = GraphRef("persistentvolumeclaims", claim.get("namespace") or "", claim.get("name") or "")
    secrets = dict.fromkeys(GraphRef("secrets", namespace, name) for namespace, name in kubelet_secrets(volume) if name)
    return Volume(of_claim, tuple(secrets))
