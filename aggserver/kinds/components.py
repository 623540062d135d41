"""The resource `componentstatuses`: whether the store works, under the name that etcd has there. Nothing is stored.

kube-apiserver also asks a scheduler and a controller manager, each at a fixed port; here is no scheduler, and what a controller
manager does is done in the server's process.
Source: k8s.io/kubernetes pkg/registry/core/componentstatus/rest.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable

from aggserver.meta import codec, errors
from aggserver.registry.rest import Context, ListOptions, ListResult
from aggserver.registry.stored import StoredObject

__all__ = ["DEPRECATED", "Components"]

DEPRECATED = "v1 ComponentStatus is deprecated in v1.19+"
_STORE = "etcd-0"


class Components:
    """`Getter` and `Lister`. trouble: what is wrong with the store, None if nothing is."""

    def __init__(self, trouble: Callable[[], str | None]) -> None:
        self._trouble = trouble

    async def get(self, context: Context, name: str, resource_version: str = "") -> StoredObject:
        if name != _STORE:
            raise errors.not_found("", "componentstatus", name)
        return self._store()

    async def list(self, context: Context, options: ListOptions) -> ListResult:
        fields = {"metadata.name": _STORE, "metadata.namespace": ""}
        chosen = options.labels.matches({}) and options.fields.matches(fields)
        return ListResult([self._store()] if chosen else [], "")

    def _store(self) -> StoredObject:
        why = self._trouble()
        condition = {"type": "Healthy", "status": "True" if why is None else "False", "message": why or "ok"}
        head = {"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": _STORE}}
        return StoredObject(_STORE, codec.encode_json({**head, "conditions": [condition]}), 0)
