"""The admission plugins of kube-apiserver that add to objects of the built-in kinds, as one plugin before all others.

What they add is in `creation.py`. Default classes and PriorityClasses are read for each object that needs them, since any write
may have changed them; there are few.
Source: k8s.io/kubernetes plugin/pkg/admission/{priority,storage/storageclass,network/defaultingressclass}, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aggserver.admission.chain import Attributes
from aggserver.informers.informer import ALL, CONTROLLER
from aggserver.kinds.catalog import type_name
from aggserver.kinds.creation import CRITICAL, Classes, admitted_defaults
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context
from aggserver.registry.store import Store

__all__ = ["KindDefaults"]

_DEFAULT_STORAGE = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_DEFAULT_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)
_TYPES = frozenset(
    {
        "core/v1.Node",
        "core/v1.PersistentVolume",
        "core/v1.PersistentVolumeClaim",
        "core/v1.Pod",
        "networking/v1.Ingress",
    }
)


class KindDefaults:
    """The plugin. store: returns the store of a group and resource."""

    def __init__(self, store: Callable[[str, str], Store]) -> None:
        self._store = store

    def concerns(self, attributes: Attributes) -> bool:
        return not attributes.subresource and _type_of(attributes) in _TYPES

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        if obj is None:
            return False
        classes = Classes() if old is not None else await self._classes(attributes.resource.resource, obj)
        admitted_defaults(obj, _type_of(attributes), old, classes)
        return True

    async def _classes(self, resource: str, obj: JSONObject) -> Classes:
        if resource == "persistentvolumeclaims" and "storageClassName" not in obj["spec"]:
            return Classes(storage=_default(await self._all("storage.k8s.io", "storageclasses"), _DEFAULT_STORAGE))
        if resource == "ingresses" and "ingressClassName" not in obj["spec"]:
            return Classes(ingress=_default(await self._all("networking.k8s.io", "ingressclasses"), _DEFAULT_INGRESS))
        if resource == "pods":
            return Classes(priority=await self._priority(obj["spec"].get("priorityClassName") or ""))
        return Classes()

    async def _priority(self, name: str) -> JSONObject | None:
        """The named PriorityClass, or for '' the global default. Raises 403 if there is no PriorityClass of that name."""
        known = await self._all("scheduling.k8s.io", "priorityclasses")
        if name:
            found = next((each for each in known if each["metadata"]["name"] == name), None)
            if found is None and name not in CRITICAL:
                raise errors.forbidden("", "pods", "", f"no PriorityClass with name {name} was found")
            return found
        return min((each for each in known if each.get("globalDefault")), key=lambda each: each["value"], default=None)

    async def _all(self, group: str, resource: str) -> list[JSONObject]:
        store = self._store(group, resource)
        if not await store.count(Context(CONTROLLER)):
            return []
        return [obj.decoded() for obj in (await store.list(Context(CONTROLLER), ALL)).items]


def _type_of(attributes: Attributes) -> str:
    return type_name(attributes.resource.group, attributes.resource.version, attributes.kind)


def _default(classes: Iterable[JSONObject], annotations: Iterable[str]) -> str:
    """The name of the newest class that is marked as the default; the first by name of those made in the same second."""
    marked = [each for each in classes if any(_annotations(each).get(name) == "true" for name in annotations)]
    marked.sort(key=lambda each: str(each["metadata"]["name"]))
    newest = max(marked, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
    return "" if newest is None else str(newest["metadata"]["name"])


def _annotations(obj: JSONObject) -> JSONObject:
    return obj["metadata"].get("annotations") or {}
