"""Namespaces of a server without a cluster: their strategies.

As upstream, a namespace has a finalizer in `spec.finalizers`. A delete sets the phase Terminating; the controller
(`controllers/namespaces/controller.py`) then deletes all objects in it, and removes the finalizer when none is left.
`spec.finalizers` can be changed only by `/finalize`, by the controller and by clients. If a client empties the list, a deleted
namespace is removed at once and its objects are left behind, as upstream.
Source: k8s.io/kubernetes pkg/registry/core/namespace/{strategy.go,storage}, pkg/apis/core/validation, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aggserver.informers.informer import CONTROLLER
from aggserver.merge.managed_fields import FieldManager
from aggserver.meta import field
from aggserver.meta.errors import StatusError
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONObject
from aggserver.meta.names import qualified_name
from aggserver.meta.resource import ResourceInfo
from aggserver.registry.own_kinds import conformer, own_fields
from aggserver.registry.rest import Context, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import StrategyDefaults, Verdict
from aggserver.scheme import object_meta

__all__ = [
    "FINALIZER",
    "INFO",
    "SYSTEM",
    "NamespaceFinalizeStrategy",
    "NamespaceStatusStrategy",
    "NamespaceStrategy",
    "StoredNamespaces",
    "ensure",
    "finalizers",
]

INFO = ResourceInfo(group="", version="v1", resource="namespaces", kind="Namespace", list_kind="NamespaceList", namespaced=False)
SYSTEM = ("default", "kube-system", "kube-public", "kube-node-lease")
"""The namespaces that every cluster has; clients use the uid of kube-system to identify the cluster."""
FINALIZER = "kubernetes"
# Finalizers that need no domain prefix.
_STANDARD_FINALIZERS = frozenset({FINALIZER, "orphan", "foregroundDeletion"})
_NAME_LABEL = "kubernetes.io/metadata.name"
_WRITE = WriteOptions(field_manager="aggserver", bounded=False)


_TYPE = "core/v1.Namespace"
_CONFORM = conformer(_TYPE)
_FIELDS = own_fields(INFO, _TYPE, resets=("status",))
_STATUS_FIELDS = own_fields(INFO, _TYPE, "status", resets=("spec",))
_FINALIZE_FIELDS = own_fields(INFO, _TYPE, "finalize", resets=("status",))


class NamespaceStrategy(StrategyDefaults):
    @property
    def info(self) -> ResourceInfo:
        return INFO

    @property
    def field_manager(self) -> FieldManager | None:
        return _FIELDS

    def conform(self, obj: JSONObject) -> list[str]:
        dropped = _CONFORM(obj)
        status = obj.get("status") or {}
        if not status.get("phase"):
            obj["status"] = {**status, "phase": "Active"}  # as SetDefaults_NamespaceStatus; clients may leave it out
        if obj["metadata"].get("name"):
            _label(obj)
        return dropped

    def default(self, obj: JSONObject) -> None:
        self.conform(obj)

    def prepare_for_create(self, obj: JSONObject, context: Context, now: str) -> None:
        obj["status"] = {"phase": "Active"}
        wanted = finalizers(obj)
        obj["spec"] = {"finalizers": wanted if FINALIZER in wanted else [*wanted, FINALIZER]}
        _label(obj)

    def validate(self, obj: JSONObject) -> Verdict:
        problems = object_meta.validate_object_meta(
            obj["metadata"], Path("metadata"), namespaced=False, name_rule=object_meta.dns1123_label
        )
        for name in finalizers(obj):
            problems += _finalizer_problems(name, _FINALIZERS)
        return Verdict(problems)

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        obj["spec"] = old.get("spec", {})
        obj["status"] = old.get("status", {})
        _label(obj)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        return Verdict([])

    def prepare_for_delete(self, obj: JSONObject, now: str) -> None:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        obj["metadata"].setdefault("deletionTimestamp", now)

    def may_be_removed(self, obj: JSONObject) -> bool:
        return not finalizers(obj)

    @property
    def unconditional_updates(self) -> bool:
        return True


class NamespaceStatusStrategy(NamespaceStrategy):
    """The strategy of the subresource `status`."""

    @property
    def field_manager(self) -> FieldManager | None:
        return _STATUS_FIELDS

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        obj["spec"] = old.get("spec", {})
        _label(obj)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        phase = (obj.get("status") or {}).get("phase") or ""
        deleted = "deletionTimestamp" in obj["metadata"]
        wanted = "Terminating" if deleted else "Active"
        if phase == wanted:
            return Verdict([])
        why = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if deleted else ''}empty"
        return Verdict([field.invalid(Path("status").child("Phase"), phase, why)])


class NamespaceFinalizeStrategy(NamespaceStrategy):
    """The strategy of the subresource `finalize`: changes `spec.finalizers`."""

    @property
    def field_manager(self) -> FieldManager | None:
        return _FINALIZE_FIELDS

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        left = finalizers(obj)
        obj["spec"] = {"finalizers": left} if left else {}
        obj["status"] = old.get("status", {})
        _label(obj)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        problems: list[FieldError] = []
        for index, name in enumerate(finalizers(obj)):
            problems += _finalizer_problems(name, _FINALIZERS.index(index))
        return Verdict(problems)


class StoredNamespaces:
    """The namespaces for admission: from the cache, or by a consistent read, since another server may have just created one.

    Objects admitted here while another server deletes the namespace are found by that server, which counts objects last.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def phase(self, name: str) -> str | None:
        obj = await self._find(name)
        return None if obj is None else obj.fields(_read_phase)["phase"]

    async def get(self, name: str) -> JSONObject | None:
        """The Namespace; None if there is none of that name."""
        obj = await self._find(name)
        return None if obj is None else obj.decoded()

    async def labels(self, name: str, prefix: str) -> Mapping[str, str]:
        """The labels of a namespace that begin with `prefix`, {} if it does not exist. Most have none, and are not decoded."""
        obj = await self._find(name)
        if obj is None or prefix.encode() not in obj.raw:
            return {}
        labels: Mapping[str, str] = obj.decoded()["metadata"].get("labels") or {}
        return {key: value for key, value in labels.items() if key.startswith(prefix)}

    async def _find(self, name: str) -> StoredObject | None:
        return self._store.known("", name) or await self._store.find(Context(CONTROLLER), name)


_FINALIZERS = Path("spec").child("finalizers")


def finalizers(namespace: JSONObject) -> list[str]:
    """The finalizers in the spec."""
    return list((namespace.get("spec") or {}).get("finalizers") or ())


def _finalizer_problems(name: str, path: Path) -> list[FieldError]:
    problems = [field.invalid(path, name, text) for text in qualified_name(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        problems.append(field.invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))
    return problems


def read_fields(namespace: JSONObject) -> dict[str, str]:
    """The selectable fields."""
    return {"status.phase": _read_phase(namespace)["phase"]}


def _read_phase(namespace: JSONObject) -> dict[str, str]:
    status = namespace.get("status") or {}
    return {"phase": str(status.get("phase", "Active"))}


async def ensure(store: Store, *names: str) -> None:
    """Create the namespaces that do not exist, at the same time."""
    await asyncio.gather(*(_ensure(store, name) for name in names))


async def _ensure(store: Store, name: str) -> None:
    obj: JSONObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    _label(obj)  # as in a request's body, so that the label has an owner
    try:
        await store.create(WriteRequest(Context(CONTROLLER), _WRITE), obj)
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise


def _label(obj: JSONObject) -> None:
    metadata = obj["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata.get("name", "")}
