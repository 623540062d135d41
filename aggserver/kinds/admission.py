"""The admission plugins of kube-apiserver for the built-in kinds, as one plugin for the chain.

Which of them concern a request is looked up by its resource; what they do is in `plugins/`. The objects that they need, such as
default classes, PriorityClasses and accounts, are read for each object that needs them, since any write may have changed them.
Source: k8s.io/kubernetes plugin/pkg/admission, pkg/kubeapiserver/options/plugins.go (their order), v1.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Protocol

from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes, forbidden
from aggserver.authentication.user import node_name
from aggserver.informers.informer import ALL, CONTROLLER
from aggserver.informers.work_queue import in_turns
from aggserver.kinds.kubelets import Kubelets
from aggserver.kinds.plugins import additions
from aggserver.meta import errors, quantity
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.registry.rest import Context
from aggserver.registry.store import Store

__all__ = ["KindPlugins", "World"]

_DEFAULT_STORAGE = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_DEFAULT_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)
_IS_DEFAULT = b'is-default-class"'  # in the JSON of what has one of these
_AT_ONCE = 5000  # classes that are looked at before other tasks run
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"

# What NodeRestriction looks at: (group, resource, subresource).
_OF_KUBELETS = (
    *(("", "pods", name) for name in ("", "status", "eviction", "binding", "ephemeralcontainers", "resize")),
    *(("", resource, name) for resource in ("nodes", "persistentvolumeclaims") for name in ("", "status")),
    ("", "serviceaccounts", "token"),
    ("coordination.k8s.io", "leases", ""),
    ("storage.k8s.io", "csinodes", ""),
    ("resource.k8s.io", "resourceslices", ""),
    ("certificates.k8s.io", "certificatesigningrequests", ""),
)
_ATTRIBUTES_CLASSES = ("storage.k8s.io", "volumeattributesclasses", "")


class World(Protocol):
    """What the plugins look up. kubelets: for NodeRestriction; None if that is not enabled."""

    @property
    def kubelets(self) -> Kubelets | None: ...

    def store(self, group: str, resource: str) -> Store:
        """The store of a resource, made at first use."""

    async def namespace_labels(self, name: str, prefix: str) -> Mapping[str, str]:
        """The labels of a namespace that begin with a text, {} if it does not exist."""

    def random(self, limit: int) -> int:
        """An integer in [0, limit)."""


# A plugin's part: (attributes, object, old object) -> whether it has changed the object. Raises StatusError.
_Part = Callable[[Attributes, JSONObject, JSONObject | None], Awaitable[bool]]
# (group, resource, subresource).
_Place = tuple[str, str, str]


class KindPlugins:
    """enabled: the names of the plugins that are on."""

    def __init__(self, world: World, enabled: Collection[str]) -> None:
        self._world = world
        pods, claims = ("", "pods", ""), ("", "persistentvolumeclaims", "")
        ephemeral, resize, binding = (("", "pods", name) for name in ("ephemeralcontainers", "resize", "binding"))
        # In upstream's order.
        mutating: list[tuple[str, tuple[_Place, ...], _Part]] = [
            ("ServiceAccount", (pods,), self._give_account),
            ("NodeRestriction", _OF_KUBELETS, self._restrict_kubelet),
            ("TaintNodesByCondition", (("", "nodes", ""),), _created(additions.taint_node)),
            ("Priority", (pods,), self._set_priority),
            ("DefaultTolerationSeconds", (pods,), _always(additions.tolerate_some_time)),
            ("DefaultStorageClass", (claims,), self._set_storage_class),
            ("StorageObjectInUseProtection", (claims,), _created(additions.protect_claim)),
            ("StorageObjectInUseProtection", (("", "persistentvolumes", ""),), _created(additions.protect_volume)),
            ("StorageObjectInUseProtection", (_ATTRIBUTES_CLASSES,), _created(additions.protect_attributes_class)),
            ("RuntimeClass", (pods,), self._apply_class),
            ("DefaultIngressClass", (("networking.k8s.io", "ingresses", ""),), self._set_ingress_class),
            ("PodTopologyLabels", (pods, binding), self._add_topology),
        ]
        workloads = tuple((group, resource, "") for group, resource in _TEMPLATES)
        validating: list[tuple[str, tuple[_Place, ...], _Part]] = [
            ("ServiceAccount", (pods, ephemeral), self._check_account),
            ("PodSecurity", (pods, ephemeral, resize, *workloads), self._check_security),
            ("Priority", (("scheduling.k8s.io", "priorityclasses", ""),), self._check_default),
            ("PersistentVolumeClaimResize", (claims,), self._check_size),
            ("RuntimeClass", (pods,), self._check_overhead),
            ("PodResizeValidator", (resize,), self._check_resize),
        ]
        self._mutating = _by_place(mutating, enabled)
        self._validating = _by_place(validating, enabled)
        self._restricted = frozenset(_OF_KUBELETS if "NodeRestriction" in enabled else ())
        of_all = (part for part in mutating if part[0] != "NodeRestriction")
        self._of_all_users = self._validating.keys() | _by_place(of_all, enabled).keys()

    def concerns(self, attributes: Attributes) -> bool:
        info = attributes.resource
        place = info.group, info.resource, attributes.subresource
        if attributes.operation != DELETE and place in self._of_all_users:
            return True
        return place in self._restricted and node_name(attributes.user) is not None

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        if obj is None and self._restricted:
            return await self._restrict(attributes, obj, old)
        return await self._run(self._mutating, attributes, obj, old)

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        await self._run(self._validating, attributes, obj, old)

    async def _run(
        self, parts: Mapping[_Place, list[_Part]], attributes: Attributes, obj: JSONObject | None, old: JSONObject | None
    ) -> bool:
        if obj is None:
            return False
        changed = False
        info = attributes.resource
        for part in parts.get((info.group, info.resource, attributes.subresource), ()):
            changed = await part(attributes, obj, old) or changed
        return changed

    # --- ServiceAccount ---

    async def _give_account(self, attributes: Attributes, pod: JSONObject, old: JSONObject | None) -> bool:
        if old is not None:
            return False
        from aggserver.kinds.plugins import service_accounts

        if (why := service_accounts.mirror_problem(pod)) is not None:
            if why:
                raise forbidden(attributes, pod, why)
            return False
        name = service_accounts.name_of(pod)
        account = await service_accounts.needed_account(self._account, attributes.namespace, name)
        if isinstance(account, str):
            raise forbidden(attributes, pod, account)
        service_accounts.give_account(pod, account, self._world.random)
        if why := service_accounts.check_secrets(pod["spec"], account):
            raise forbidden(attributes, pod, why)
        return True

    async def _check_account(self, attributes: Attributes, pod: JSONObject, old: JSONObject | None) -> bool:
        """Once more, since webhooks may have changed the Pod."""
        ephemeral = bool(attributes.subresource)
        if old is not None and not ephemeral:
            return False
        from aggserver.kinds.plugins import service_accounts

        if not ephemeral and (why := service_accounts.mirror_problem(pod)) is not None:
            if why:
                raise forbidden(attributes, pod, why)
            return False
        name = pod["spec"].get("serviceAccountName")
        if not name:
            where = f"{attributes.namespace}/{pod['metadata'].get('name') or ''}"
            raise forbidden(attributes, pod, f"no service account specified for pod {where}")
        account = await service_accounts.needed_account(self._account, attributes.namespace, name)
        why = account if isinstance(account, str) else service_accounts.check_secrets(pod["spec"], account, ephemeral=ephemeral)
        if why:
            raise forbidden(attributes, pod, why)
        return False

    async def _account(self, namespace: str, name: str) -> JSONObject | None:
        return await self._one("", "serviceaccounts", name, namespace)

    # --- NodeRestriction ---

    async def _restrict_kubelet(self, attributes: Attributes, obj: JSONObject, old: JSONObject | None) -> bool:
        return await self._restrict(attributes, obj, old)

    async def _restrict(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        node = node_name(attributes.user)
        if node is None:
            return False
        from aggserver.kinds.plugins.node_restriction import KubeletRefusal, NodeRestriction

        assert self._world.kubelets is not None
        try:
            await NodeRestriction(self._one, self._world.kubelets, node).check(attributes, obj, old)
        except KubeletRefusal as refusal:
            raise forbidden(attributes, obj, str(refusal)) from None
        return False

    # --- PodSecurity ---

    async def _check_security(self, attributes: Attributes, obj: JSONObject, old: JSONObject | None) -> bool:
        from aggserver.kinds.plugins.pod_security import PodSecurity

        template: JSONMapping = obj
        for name in _TEMPLATES.get((attributes.resource.group, attributes.resource.resource), ()):
            template = template.get(name) or {}
        await PodSecurity(self._world.namespace_labels).check(attributes, obj, old, template)
        return False

    # --- Priority ---

    async def _set_priority(self, attributes: Attributes, pod: JSONObject, old: JSONObject | None) -> bool:
        if old is not None:
            additions.keep_priority(pod, old)
            return True
        name = pod["spec"].get("priorityClassName") or ""
        found = await self._one("scheduling.k8s.io", "priorityclasses", name) if name else await self._default_priority()
        if found is None and name and name not in additions.CRITICAL:
            raise forbidden(attributes, pod, f"no PriorityClass with name {name} was found")
        if why := additions.set_priority(pod, found):
            raise forbidden(attributes, pod, why)
        return True

    async def _default_priority(self) -> JSONObject | None:
        known = await self._marked("scheduling.k8s.io", "priorityclasses", b'"globalDefault":true')
        return min((each for each in known if each.get("globalDefault")), key=lambda each: each["value"], default=None)

    async def _check_default(self, attributes: Attributes, obj: JSONObject, old: JSONObject | None) -> bool:
        """There is only one PriorityClass that is the global default."""
        if not obj.get("globalDefault"):
            return False
        default = await self._default_priority()
        if default is not None and (old is None or default["metadata"]["name"] != obj["metadata"].get("name")):
            name = default["metadata"]["name"]
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise forbidden(attributes, obj, why)
        return False

    # --- storage and ingress classes ---

    async def _set_storage_class(self, attributes: Attributes, claim: JSONObject, old: JSONObject | None) -> bool:
        if old is not None or "storageClassName" in claim["spec"]:
            return False
        classes = await self._marked("storage.k8s.io", "storageclasses", _IS_DEFAULT)
        additions.set_storage_class(claim, _default(classes, _DEFAULT_STORAGE))
        return True

    async def _check_size(self, attributes: Attributes, claim: JSONObject, old: JSONObject | None) -> bool:
        """Only a bound claim may grow, and only if its StorageClass allows it."""
        if old is None or _size(claim).compare(_size(old)) <= 0:
            return False
        if (old.get("status") or {}).get("phase") != "Bound":
            raise forbidden(attributes, claim, "Only bound persistent volume claims can be expanded")
        name = _class_of(claim)
        known = await self._one("storage.k8s.io", "storageclasses", name) if name and name == _class_of(old) else None
        if not (known or {}).get("allowVolumeExpansion"):
            why = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
            )
            raise forbidden(attributes, claim, why)
        return False

    async def _set_ingress_class(self, attributes: Attributes, ingress: JSONObject, old: JSONObject | None) -> bool:
        if old is not None or "ingressClassName" in ingress["spec"]:
            return False
        classes = await self._marked("networking.k8s.io", "ingressclasses", _IS_DEFAULT)
        additions.set_ingress_class(ingress, _default(classes, _DEFAULT_INGRESS))
        return True

    # --- RuntimeClass ---

    async def _apply_class(self, attributes: Attributes, pod: JSONObject, old: JSONObject | None) -> bool:
        if old is not None or (runtime := await self._runtime_class(attributes, pod)) is None:
            return False
        from aggserver.kinds.plugins.runtime_classes import apply_class

        if why := apply_class(pod["spec"], runtime):
            raise forbidden(attributes, pod, why)
        return True

    async def _check_overhead(self, attributes: Attributes, pod: JSONObject, old: JSONObject | None) -> bool:
        if old is not None or not ({"runtimeClassName", "overhead"} & pod["spec"].keys()):
            return False
        from aggserver.kinds.plugins.runtime_classes import overhead_problem

        if why := overhead_problem(pod["spec"], await self._runtime_class(attributes, pod)):
            raise forbidden(attributes, pod, why)
        return False

    async def _runtime_class(self, attributes: Attributes, pod: JSONObject) -> JSONObject | None:
        name = pod["spec"].get("runtimeClassName")
        if name is None:
            return None
        found = await self._one("node.k8s.io", "runtimeclasses", name)
        if found is None:
            raise forbidden(attributes, pod, f"pod rejected: RuntimeClass {quote(name)} not found")
        return found

    # --- PodResizeValidator ---

    async def _check_resize(self, attributes: Attributes, pod: JSONObject, old: JSONObject | None) -> bool:
        """Of a Pod on a node whose resources change: they must fit the node."""
        name = pod["spec"].get("nodeName")
        if not name or old is None or pod["metadata"].get("generation") == old["metadata"].get("generation"):
            return False
        node = await self._one("", "nodes", name)
        if node is None:
            raise forbidden(attributes, pod, f"node {quote(name)} not found")
        from aggserver.kinds.plugins.pod_resize import resize_problem

        if problem := resize_problem(pod, node):
            error = forbidden(attributes, pod, problem.message)
            error.causes = (errors.Cause(problem.cause, ""),)
            raise error
        return False

    # --- PodTopologyLabels ---

    async def _add_topology(self, attributes: Attributes, obj: JSONObject, old: JSONObject | None) -> bool:
        """Of a new Pod that names its node, and of a Binding."""
        if attributes.subresource:
            target = obj.get("target") or {}
            name = target.get("name") if target.get("kind") == "Node" else ""
        else:
            name = "" if old is not None else obj["spec"].get("nodeName")
        node = await self._one("", "nodes", name) if name else None
        if node is None:
            return False
        additions.add_topology(obj, node)
        return True

    # --- lookups ---

    async def _one(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        store = self._world.store(group, resource)
        found = store.known(namespace, name) or await store.find(Context(CONTROLLER, namespace), name)
        return None if found is None else found.decoded()

    async def _marked(self, group: str, resource: str, mark: bytes) -> list[JSONObject]:
        """The objects whose JSON has these bytes: of thousands of classes, few may be the default, and each Pod asks."""
        store = self._world.store(group, resource)
        if not await store.count(Context(CONTROLLER)):
            return []
        listed = (await store.list(Context(CONTROLLER), ALL)).items
        return [obj.decoded() async for obj in in_turns(listed, _AT_ONCE) if mark in obj.raw]


# Workloads that PodSecurity looks at -> where their template is.
_TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
}


def _by_place(parts: Iterable[tuple[str, tuple[_Place, ...], _Part]], enabled: Collection[str]) -> Mapping[_Place, list[_Part]]:
    found: dict[_Place, list[_Part]] = {}
    for name, places, part in parts:
        for place in places if name in enabled else ():
            found.setdefault(place, []).append(part)
    return found


def _created(change: Callable[[JSONObject], None]) -> _Part:
    return partial(_change, frozenset({CREATE}), change)


def _always(change: Callable[[JSONObject], None]) -> _Part:
    return partial(_change, frozenset({CREATE, UPDATE}), change)


async def _change(
    operations: Collection[str],
    change: Callable[[JSONObject], None],
    attributes: Attributes,
    obj: JSONObject,
    old: JSONObject | None,
) -> bool:
    if (CREATE if old is None else UPDATE) not in operations:
        return False
    change(obj)
    return True


def _size(claim: JSONMapping) -> quantity.Quantity:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return quantity.parse(str(requests.get("storage") or "0"))


def _class_of(claim: JSONMapping) -> str:
    annotations = claim["metadata"].get("annotations") or {}
    return str(annotations.get(_BETA_CLASS) or claim["spec"].get("storageClassName") or "")


def _default(classes: Iterable[JSONObject], annotations: Iterable[str]) -> str:
    """The name of the newest class that is marked as the default; the first by name of those made in the same second."""
    marked = [each for each in classes if any(_annotations(each).get(name) == "true" for name in annotations)]
    marked.sort(key=lambda each: str(each["metadata"]["name"]))
    newest = max(marked, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
    return "" if newest is None else str(newest["metadata"]["name"])


def _annotations(obj: JSONObject) -> JSONObject:
    return obj["metadata"].get("annotations") or {}
