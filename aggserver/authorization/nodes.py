"""What a kubelet may do: the mode Node of --authorization-mode.

Some resources are divided between the nodes: a kubelet reads its Node, its Pods, and what these refer to. For all others the
rules of the bootstrap's ClusterRole `system:node` hold. The admission plugin NodeRestriction limits what a kubelet writes.
Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/node/node_authorizer.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import cache

from aggserver.authorization import bootstrap
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.delegating import ALLOWED, Decision
from aggserver.authorization.node_graph import GraphRef, NodeGraph
from aggserver.authorization.rbac import PolicyRule
from aggserver.meta.golang import quote
from aggserver.meta.selectors import FieldSelector, SelectorError

__all__ = ["LEASES", "NodeAuthorizer"]

LEASES = "kube-node-lease"
"""The namespace of the nodes' Leases."""
_NOTHING = Decision(False, "")
# A decision, or the object that must concern the node.
_Answer = Decision | GraphRef


class NodeAuthorizer:
    """graph: returns the graph, perhaps after it was read; asked only where the decision depends on it."""

    def __init__(self, graph: Callable[[], Awaitable[NodeGraph]]) -> None:
        self._graph = graph

    async def authorize(self, node: str, attributes: Attributes) -> Decision:
        """The decision about a request of the kubelet of a node; the reason of a denial may be ''."""
        if not node:
            return _no(f"unknown node for user {quote(attributes.user.name)}")
        answer = _answer(node, attributes)
        if isinstance(answer, Decision):
            return answer
        if not answer.name:
            return _no("No Object name found")
        graph = await self._graph()
        if graph.leads_to(answer, node):
            return ALLOWED
        return _no(f"no relationship found between node '{node}' and this object")


def _no(reason: str) -> Decision:
    return Decision(False, reason)


def _answer(node: str, attributes: Attributes) -> _Answer:
    divided = _DIVIDED.get((attributes.group, attributes.resource)) if attributes.on_resource else None
    if divided is not None:
        return divided(node, attributes)
    return ALLOWED if any(rule.allows(attributes) for rule in _rules()) else _NOTHING


@cache
def _rules() -> list[PolicyRule]:
    (role,) = (obj for obj in bootstrap.objects() if obj["kind"] == "ClusterRole" and obj["metadata"]["name"] == "system:node")
    return [PolicyRule.of(rule) for rule in role["rules"]]


def _this(attributes: Attributes) -> GraphRef:
    return GraphRef(attributes.resource, attributes.namespace, attributes.name)


def _read_within_namespace(node: str, attributes: Attributes) -> _Answer:
    if attributes.verb not in ("get", "list", "watch"):
        return _no("can only read resources of this type")
    if attributes.subresource:
        return _no("cannot read subresource")
    if not attributes.namespace:
        return _no("can only read namespaced object of this type")
    return _this(attributes)


def _get(node: str, attributes: Attributes) -> _Answer:
    if attributes.verb != "get":
        return _no("can only get individual resources of this type")
    if attributes.subresource:
        return _no("cannot get subresource")
    return _this(attributes)


def _claim(node: str, attributes: Attributes) -> _Answer:
    if attributes.subresource != "status":
        return _get(node, attributes)
    if attributes.verb not in ("update", "patch"):
        return _no("can only get/update/patch this type")
    return _this(attributes)


def _account(node: str, attributes: Attributes) -> _Answer:
    if attributes.verb == "get" and not attributes.subresource:
        return _read_within_namespace(node, attributes)
    if attributes.verb != "create" or not attributes.name:
        return _no("can only create tokens for individual service accounts")
    if attributes.subresource != "token":
        return _no("can only create token subresource of serviceaccount")
    return _this(attributes)


_OWN_VERBS = ("get", "create", "update", "patch", "delete")


def _lease(node: str, attributes: Attributes) -> _Answer:
    if attributes.verb not in _OWN_VERBS:
        return _no("can only get, create, update, patch, or delete a node lease")
    if attributes.namespace != LEASES:
        return _no(f'can only access leases in the "{LEASES}" system namespace')
    return _of_same_name(node, attributes, "node lease")


def _csi_node(node: str, attributes: Attributes) -> _Answer:
    if attributes.verb not in _OWN_VERBS:
        return _no("can only get, create, update, patch, or delete a CSINode")
    if attributes.subresource:
        return _no("cannot authorize CSINode subresources")
    return _of_same_name(node, attributes, "CSINode")


def _of_same_name(node: str, attributes: Attributes, what: str) -> Decision:
    # A create's name is not known here; NodeRestriction checks it.
    if attributes.verb != "create" and attributes.name != node:
        return _no(f"can only access {what} with the same name as the requesting node")
    return ALLOWED


def _slice(node: str, attributes: Attributes) -> _Answer:
    if attributes.subresource:
        return _no("cannot authorize ResourceSlice subresources")
    if attributes.verb == "create":
        return ALLOWED  # NodeRestriction checks its node
    if attributes.verb in ("get", "update", "patch", "delete"):
        return _this(attributes)
    if attributes.verb in ("watch", "list", "deletecollection"):
        if _selects(attributes, "spec.nodeName", node):
            return ALLOWED
        return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")
    verbs = "get, watch, list, create, update, patch, delete, deletecollection"
    return _no(f"only the following verbs are allowed for a ResourceSlice: {verbs}")


def _node(node: str, attributes: Attributes) -> _Answer:
    verb = attributes.verb
    if attributes.subresource == "status":
        return _allowed(verb, ("update", "patch"))
    if attributes.subresource or verb not in ("get", "list", "watch"):
        return _NOTHING if attributes.subresource else _allowed(verb, ("create", "update", "patch"))
    if attributes.name == node:
        return ALLOWED
    if not attributes.name:
        return _no(f"node '{node}' cannot read all nodes, only its own Node object")
    return _no(f"node '{node}' cannot read '{attributes.name}', only its own Node object")


def _pod(node: str, attributes: Attributes) -> _Answer:
    verb = attributes.verb
    if attributes.subresource == "status":
        return _allowed(verb, ("update", "patch"))
    if attributes.subresource == "eviction":
        return _allowed(verb, ("create",))
    if attributes.subresource:
        return _NOTHING
    if verb == "get":
        return _get(node, attributes)
    if verb not in ("list", "watch"):
        return _allowed(verb, ("create", "delete"))
    if _selects(attributes, "spec.nodeName", node):
        return ALLOWED
    return _this(attributes) if attributes.name else _no("can only list/watch pods with spec.nodeName field selector")


def _allowed(verb: str, verbs: Collection[str]) -> Decision:
    return ALLOWED if verb in verbs else _NOTHING


def _selects(attributes: Attributes, field: str, value: str) -> bool:
    """Whether the field selector demands this value of a field."""
    if not attributes.field_selector:
        return False
    try:
        requirements = FieldSelector.parse(attributes.field_selector).requirements()
    except SelectorError:
        return False
    return (field, "In", (value,)) in requirements


_DIVIDED: dict[tuple[str, str], Callable[[str, Attributes], _Answer]] = {
    ("", "secrets"): _read_within_namespace,
    ("", "configmaps"): _read_within_namespace,
    ("", "persistentvolumeclaims"): _claim,
    ("", "persistentvolumes"): _get,
    ("resource.k8s.io", "resourceclaims"): _get,
    ("storage.k8s.io", "volumeattachments"): _get,
    ("", "serviceaccounts"): _account,
    ("coordination.k8s.io", "leases"): _lease,
    ("storage.k8s.io", "csinodes"): _csi_node,
    ("resource.k8s.io", "resourceslices"): _slice,
    ("", "nodes"): _node,
    ("", "pods"): _pod,
}
