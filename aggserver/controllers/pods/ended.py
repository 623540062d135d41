"""Removes Pods that were deleted with a grace period of 0 and still exist, since the server was killed between the two steps.

The first step marks the Pod, the second removes it. In a cluster, a kubelet or the collector of Pods removes what is left.
Source: k8s.io/apiserver pkg/registry/rest/delete.go (the two phases), k8s.io/kubernetes pkg/controller/podgc, v1.36.3.
"""

from __future__ import annotations

import logging
from typing import Any

from aggserver.informers.informer import CONTROLLER
from aggserver.meta import codec
from aggserver.meta.errors import StatusError
from aggserver.registry.rest import Context, DeleteOptions
from aggserver.registry.store import Store
from aggserver.storage import keys
from aggserver.storage.interface import Storage

__all__ = ["remove_ended_pods"]

log = logging.getLogger("aggserver.controllers")

_PAGE = 500  # objects read at once
# In the JSON of a Pod after the first step. Other Pods may also contain this text.
_MARK = b'"deletionGracePeriodSeconds":0'


async def remove_ended_pods(storage: Storage, pods: Store) -> None:
    """Remove the Pods that are left. To be run once, at the start. Raises StorageError, StatusError."""
    start, prefix = "", keys.resource_prefix("", "pods")
    while True:
        page = await storage.list(prefix, start=start, limit=_PAGE, counted=False)
        for item in page.items:
            if _MARK in item.value:
                await _remove(pods, codec.decode_stored(item.value)["metadata"])
        if not page.more:
            return
        start = page.items[-1].key + "\0"


async def _remove(pods: Store, metadata: dict[str, Any]) -> None:
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return
    namespace, name = metadata["namespace"], metadata["name"]
    try:
        await pods.delete(Context(CONTROLLER, namespace), name, DeleteOptions(uid=metadata["uid"], grace_period_seconds=0))
    except StatusError as error:
        if error.code not in (404, 409):  # somebody else has removed it, or another has its name
            raise
    else:
        log.info("removed Pod %s/%s, whose deletion had not been finished", namespace, name)
