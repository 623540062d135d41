"""NodeRestriction: what a kubelet may write: its Node, mirror Pods, the status of its Pods, and tokens for them.

The Node authorizer permits these requests without knowing the objects; this plugin looks at them.
Source: k8s.io/kubernetes plugin/pkg/admission/noderestriction/admission.go, v1.36.3; k8s.io/kubelet
pkg/apis/well_known_labels.go, k8s.io/csi-translation-lib plugins, v0.36.3.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes
from aggserver.authorization.attributes import Attributes as Access
from aggserver.authorization.nodes import LEASES
from aggserver.kinds import references
from aggserver.kinds.kubelets import Kubelets
from aggserver.meta import errors
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["KubeletRefusal", "NodeRestriction"]


# (group, plural, name, namespace) -> the object; None if there is none.
Find = Callable[[str, str, str, str], Awaitable[JSONObject | None]]


class KubeletRefusal(Exception):
    """Why the write is refused."""


class NodeRestriction:
    """find: looks up objects. node: the name of the kubelet's node, '' if it is not known."""

    def __init__(self, find: Find, kubelets: Kubelets, node: str) -> None:
        self._find = find
        self._kubelets = kubelets
        self._node = node

    async def check(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        """Check a write of a kubelet. Raises KubeletRefusal, and StatusError 404 if an object that is needed does not exist."""
        if not self._node:
            raise KubeletRefusal(f"could not determine node from user {quote(attributes.user.name)}")
        check = _CHECKS[attributes.resource.group, attributes.resource.resource]
        await check(self, attributes, obj, old)

    # --- Pods ---

    async def _pod(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        node, operation = quote(self._node), attributes.operation
        if attributes.subresource == "status":
            self._pod_status(operation, obj, old)
        elif attributes.subresource == "eviction":
            await self._eviction(attributes, obj)
        elif attributes.subresource:
            what = f"unexpected pod subresource {quote(attributes.subresource)}"
            raise KubeletRefusal(f"{what}, only 'status' and 'eviction' are allowed")
        elif operation == CREATE:
            await self._mirror_pod(obj or {})
        elif operation == DELETE:
            if not self._is_here(old or {}):
                raise KubeletRefusal(f"node {node} can only delete pods with spec.nodeName set to itself")
        else:
            raise KubeletRefusal(f"unexpected operation {quote(operation)}, node {node} can only create and delete mirror pods")

    def _is_here(self, pod: JSONMapping) -> bool:
        return (pod["spec"].get("nodeName") or "") == self._node

    async def _mirror_pod(self, pod: JSONObject) -> None:
        node, only = quote(self._node), f"node {quote(self._node)} can only create"
        if not references.is_mirror(pod):
            raise KubeletRefusal(f'pod does not have "{references.MIRROR}" annotation, {only} mirror pods')
        if not self._is_here(pod):
            raise KubeletRefusal(f"{only} pods with spec.nodeName set to itself")
        owners = pod["metadata"].get("ownerReferences") or []
        if len(owners) > 1:
            raise KubeletRefusal(f"{only} pods with a single owner reference set to itself")
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", self._node):
            raise KubeletRefusal(f"{only} pods with an owner reference set to itself")
        if not owner.get("controller"):
            raise KubeletRefusal(f"{only} pods with a controller owner reference set to itself")
        if owner.get("blockOwnerDeletion"):
            raise KubeletRefusal(f"node {node} must not set blockOwnerDeletion on an owner reference")
        uid = (await self._needed("", "nodes", "node", self._node))["metadata"]["uid"]
        if owner.get("uid") != uid:
            raise KubeletRefusal(f"node {self._node} UID mismatch: expected {owner.get('uid') or ''} got {uid}")
        if read := references.read_from_api(pod["spec"]):
            raise KubeletRefusal(f"node {node} can not create pods that reference {read}")

    def _pod_status(self, operation: str, obj: JSONObject | None, old: JSONObject | None) -> None:
        node = f"node {quote(self._node)}"
        if operation != UPDATE or obj is None or old is None:
            raise KubeletRefusal(f"unexpected operation {quote(operation)}")
        if not self._is_here(old):
            only = "can only update pod status for pods with spec.nodeName set to itself"
            raise KubeletRefusal(f"{node} {only}")
        if (obj["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
            raise KubeletRefusal(f"{node} cannot update labels through pod status")
        before, after = old.get("status") or {}, obj.get("status") or {}
        if _claim_statuses(before) != _claim_statuses(after):
            raise KubeletRefusal(f"{node} cannot update resource claim statues")
        if _extended(before) != _extended(after):
            raise KubeletRefusal(f"{node} cannot update extended resource claim status")

    async def _eviction(self, attributes: Attributes, obj: JSONObject | None) -> None:
        if attributes.operation != CREATE:
            raise KubeletRefusal(f"unexpected operation {attributes.operation}")
        if not attributes.name:
            raise KubeletRefusal("could not determine pod from request data")
        pod = await self._needed("", "pods", "pod", attributes.name, attributes.namespace)
        if not self._is_here(pod):
            raise KubeletRefusal(f"node {self._node} can only evict pods with spec.nodeName set to itself")

    # --- Nodes ---

    async def _own_node(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        node = f"node {quote(self._node)}"
        if attributes.name != self._node:
            raise KubeletRefusal(f"{node} is not allowed to modify node {quote(attributes.name)}")
        if obj is None:
            return
        spec, source = obj.get("spec") or {}, (obj.get("spec") or {}).get("configSource")
        labels = obj["metadata"].get("labels") or {}
        if old is None:
            if source is not None:
                raise KubeletRefusal(f"{node} is not allowed to create pods with a non-nil configSource")
            if forbidden := _forbidden_labels(labels, {}):
                raise KubeletRefusal(f"{node} is not allowed to set the following labels: {', '.join(forbidden)}")
            return
        before = old.get("spec") or {}
        if source is not None and source != before.get("configSource"):
            raise KubeletRefusal(f"{node} is not allowed to update configSource to a new non-nil configSource")
        if (spec.get("taints") or []) != (before.get("taints") or []):
            raise KubeletRefusal(f"{node} is not allowed to modify taints")
        if (obj["metadata"].get("ownerReferences") or []) != (old["metadata"].get("ownerReferences") or []):
            raise KubeletRefusal(f"{node} is not allowed to modify ownerReferences")
        if forbidden := _forbidden_labels(labels, old["metadata"].get("labels") or {}):
            raise KubeletRefusal(f"is not allowed to modify labels: {', '.join(forbidden)}")

    # --- claims ---

    async def _claim(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if attributes.subresource != "status":
            raise KubeletRefusal("may only update PVC status")
        if attributes.operation != UPDATE or obj is None or old is None:
            raise KubeletRefusal(f"unexpected operation {quote(attributes.operation)}")
        if _claim_without_sizes(obj) != _claim_without_sizes(old):
            # Upstream also prints what differs, as Go's values.
            what = "fields other than status.quantity and status.conditions"
            raise KubeletRefusal(f"node {quote(self._node)} is not allowed to update {what}")

    # --- tokens ---

    async def _token(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if attributes.operation != CREATE or attributes.subresource != "token" or obj is None:
            return
        spec = obj.get("spec") or {}
        bound = spec.get("boundObjectRef") or {}
        if (bound.get("apiVersion"), bound.get("kind")) != ("v1", "Pod") or not bound.get("name"):
            raise KubeletRefusal("node requested token not bound to a pod")
        if not bound.get("uid"):
            raise KubeletRefusal("node requested token with a pod binding without a uid")
        pod = await self._needed("", "pods", "pod", bound["name"], attributes.namespace)
        if bound["uid"] != pod["metadata"]["uid"]:
            which = f"({bound['uid']}) does not match the UID in record. The object might have been deleted and then recreated"
            raise KubeletRefusal(f"the UID in the bound object reference {which}")
        if not self._is_here(pod):
            raise KubeletRefusal("node requested token bound to a pod scheduled on a different node")
        await self._audiences(attributes, spec.get("audiences") or [], pod)

    async def _audiences(self, attributes: Attributes, audiences: list[str], pod: JSONObject) -> None:
        """A kubelet may ask for the audiences that a volume of the Pod has, and for those that it has the right to."""
        if len(audiences) > 1:
            raise KubeletRefusal("node may only request 0 or 1 audiences")
        audience = audiences[0] if audiences else ""
        troubles: dict[str, None] = {}
        for volume in pod["spec"].get("volumes") or ():
            sources = (volume.get("projected") or {}).get("sources") or ()
            tokens = [each["serviceAccountToken"] for each in sources if each.get("serviceAccountToken") is not None]
            if any((token.get("audience") or "") == audience for token in tokens):
                return
            try:
                if await self._driver_has(audience, await self._driver(pod, volume)):
                    return
            except errors.StatusError as error:
                troubles[error.message] = None
        if troubles:
            listed = ", ".join(troubles)
            raise KubeletRefusal(f"error validating audience {quote(audience)}: {f'[{listed}]' if len(troubles) > 1 else listed}")
        asked = Access(
            attributes.user,
            "request-serviceaccounts-token-audience",
            version="v1",
            resource=audience,
            namespace=attributes.namespace,
            name=attributes.name,
        )
        if not (await self._kubelets.authorizer.authorize(asked)).allowed:
            who = f"{attributes.user.name} is not authorized to request tokens for this audience"
            raise KubeletRefusal(f"audience {quote(audience)} not found in pod spec volume, {who}")

    async def _driver(self, pod: JSONObject, volume: JSONObject) -> str:
        """The CSI driver of a volume of a Pod; '' if it has none. Raises StatusError 404."""
        ephemeral, claim = volume.get("ephemeral") or {}, volume.get("persistentVolumeClaim")
        if ephemeral.get("volumeClaimTemplate") is not None:
            name = references.ephemeral_claim(pod, volume)
        elif claim is not None:
            name = claim.get("claimName") or ""
        else:
            return _driver_of(volume)
        namespace = pod["metadata"]["namespace"]
        of_pod = await self._needed("", "persistentvolumeclaims", "persistentvolumeclaim", name, namespace)
        bound = of_pod["spec"].get("volumeName") or ""
        return _driver_of((await self._needed("", "persistentvolumes", "persistentvolume", bound))["spec"])

    async def _driver_has(self, audience: str, driver: str) -> bool:
        if not driver:
            return False
        found = await self._needed("storage.k8s.io", "csidrivers", "csidriver", driver)
        return any((each.get("audience") or "") == audience for each in found["spec"].get("tokenRequests") or ())

    # --- what is named like the node, or names it ---

    async def _lease(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if attributes.namespace != LEASES:
            raise KubeletRefusal(f'can only access leases in the "{LEASES}" system namespace')
        self._same_name(attributes, "node lease")

    async def _csi_node(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        self._same_name(attributes, "CSINode")

    def _same_name(self, attributes: Attributes, what: str) -> None:
        if attributes.name != self._node:
            raise KubeletRefusal(f"can only access {what} with the same name as the requesting node")

    async def _slice(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if attributes.operation == UPDATE:
            return
        spec = (obj or old or {}).get("spec") or {}
        if spec.get("nodeName") != self._node:
            verb = attributes.operation.lower()
            raise KubeletRefusal(f"can only {verb} ResourceSlice with the same NodeName as the requesting node")

    async def _signing_request(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if attributes.operation != CREATE or obj is None or obj["spec"].get("signerName") not in _KUBELET_SIGNERS:
            return
        try:
            name = self._kubelets.common_name(base64.b64decode(obj["spec"].get("request") or ""))
        except ValueError as error:
            raise KubeletRefusal(f"unable to parse csr: {error}") from None
        if name != f"system:node:{self._node}":
            raise KubeletRefusal(f"can only create a node CSR with CN=system:node:{self._node}")

    async def _needed(self, group: str, resource: str, called: str, name: str, namespace: str = "") -> JSONObject:
        """An object. called: what upstream's error names it."""
        found = await self._find(group, resource, name, namespace)
        if found is None:
            raise errors.not_found(group, called, name)
        return found


_Check = Callable[[NodeRestriction, Attributes, JSONObject | None, JSONObject | None], Awaitable[None]]
_CHECKS: Mapping[tuple[str, str], _Check] = {
    ("", "pods"): NodeRestriction._pod,
    ("", "nodes"): NodeRestriction._own_node,
    ("", "persistentvolumeclaims"): NodeRestriction._claim,
    ("", "serviceaccounts"): NodeRestriction._token,
    ("coordination.k8s.io", "leases"): NodeRestriction._lease,
    ("storage.k8s.io", "csinodes"): NodeRestriction._csi_node,
    ("resource.k8s.io", "resourceslices"): NodeRestriction._slice,
    ("certificates.k8s.io", "certificatesigningrequests"): NodeRestriction._signing_request,
}

_KUBELET_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
# Sources of volumes from before CSI -> the driver that now serves them.
_MIGRATED = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
}

# The labels of Kubernetes that a kubelet may set on its Node, and the domains whose labels it may set.
_KUBELET_LABELS = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED_DOMAINS = ("kubernetes.io", "k8s.io")


def _forbidden_labels(labels: JSONMapping, before: JSONMapping) -> list[str]:
    """The labels that are changed and that a kubelet may not set, sorted."""
    changed = {name for name in {*labels, *before} if labels.get(name) != before.get(name)}
    return sorted(filter(_is_forbidden, changed))


def _is_forbidden(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    if not slash or not _is_within(domain, _RESERVED_DOMAINS):
        return False
    return label not in _KUBELET_LABELS and not _is_within(domain, _KUBELET_DOMAINS)


def _is_within(domain: str, domains: tuple[str, ...]) -> bool:
    return any(domain == each or domain.endswith(f".{each}") for each in domains)


def _driver_of(source: JSONMapping) -> str:
    if (csi := source.get("csi")) is not None:
        return str(csi.get("driver") or "")
    return next((driver for member, driver in _MIGRATED.items() if source.get(member) is not None), "")


def _claim_statuses(status: JSONMapping) -> list[tuple[str, str | None]]:
    return [(each.get("name") or "", each.get("resourceClaimName")) for each in status.get("resourceClaimStatuses") or ()]


def _extended(status: JSONMapping) -> tuple[str, list[Any]] | None:
    found = status.get("extendedResourceClaimStatus")
    return None if found is None else (found.get("resourceClaimName") or "", found.get("requestMappings") or [])


_SIZES = frozenset({"allocatedResourceStatuses", "allocatedResources", "capacity", "conditions"})
_OF_WRITE = frozenset({"managedFields", "resourceVersion"})


def _claim_without_sizes(claim: JSONMapping) -> JSONObject:
    """What a kubelet must leave as it is, without empty members."""
    parts = {
        **{name: value for name, value in claim.items() if name not in ("metadata", "status")},
        **{f"metadata.{name}": value for name, value in claim["metadata"].items() if name not in _OF_WRITE},
        **{f"status.{name}": value for name, value in (claim.get("status") or {}).items() if name not in _SIZES},
    }
    return {name: value for name, value in parts.items() if value not in (None, {}, [], "")}
