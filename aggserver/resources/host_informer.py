"""HostInformer: a copy of some objects of the hosting cluster, kept up to date by one watch with the server's own rights.

For the feed and the list of a view of these objects, and to look up others beside. The copy is the last known state; while the
cluster does not answer, it is not shown: a failure is never absence. Changes come as states: of several of one object only the
last one is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from aggserver.cluster import ClusterError, Unreachable
from aggserver.cluster.pacing import Sleep
from aggserver.cluster.reflector import Reflector
from aggserver.meta.json_types import JSONObject
from aggserver.meta.versions import parse_group_version
from aggserver.resources.errors import Unavailable
from aggserver.resources.events import Changed, Gone, Relist
from aggserver.resources.host import NO_HOST, Hosting, path_of

__all__ = ["HostInformer"]

log = logging.getLogger("aggserver.resources")

# Objects of a page of a list.
_PAGE = 500


class _Follower:
    """One call of `changes`. keys: of the objects that have changed since it looked."""

    def __init__(self) -> None:
        self.keys: dict[str, None] = {}
        self.moved = asyncio.Event()


class HostInformer:
    """Made by `App.informer`. Objects are JSON, shared by all who read them: they must not be changed.

    `objects` and `get` read the copy, `changes` tells of its changes. All raise Unavailable while the copy is not known to be
    current: before the first list, after a failure, and where there is no hosting cluster.
    """

    def __init__(
        self,
        api_version: str,
        resource: str,
        namespace: str,
        query: Mapping[str, str],
        keep: Callable[[JSONObject], JSONObject],
    ) -> None:
        self.group, _ = parse_group_version(api_version)
        self._api_version = api_version
        self._resource = resource
        self._namespace = namespace
        self._query = query
        self._keep = keep
        self._objects: Mapping[str, JSONObject] = {}
        self._trouble = NO_HOST
        self._followers: set[_Follower] = set()

    # --- for users' functions ---

    def objects(self, namespace: str = "") -> Sequence[JSONObject]:
        """All objects, or those of a namespace."""
        self._check()
        found = [*self._objects.values()]
        return [obj for obj in found if obj["metadata"].get("namespace") == namespace] if namespace else found

    def get(self, name: str, namespace: str = "") -> JSONObject | None:
        """One object, None if there is none."""
        self._check()
        return self._objects.get(f"{namespace}/{name}" if namespace else name)

    async def changes(self) -> AsyncGenerator[Changed[JSONObject] | Gone | Relist, None]:
        """For a feed: Relist when the copy is there, then what changes, until the copy can't be kept up to date."""
        follower = _Follower()
        self._followers.add(follower)
        try:
            while self._trouble and self._trouble != NO_HOST:
                follower.moved.clear()
                await follower.moved.wait()
            self._check()
            follower.keys.clear()
            yield Relist()
            while True:
                keys, follower.keys = follower.keys, {}
                for key in keys:
                    obj = self._objects.get(key)
                    namespace, _, name = key.rpartition("/")
                    yield Gone(name, namespace) if obj is None else Changed(obj)
                if not follower.keys:
                    self._check()
                    follower.moved.clear()
                    await follower.moved.wait()
        finally:
            self._followers.discard(follower)

    def _check(self) -> None:
        if self._trouble:
            raise Unavailable(self._trouble)

    # --- for the server ---

    async def run(self, hosting: Hosting, sleep: Sleep) -> None:
        """Until cancelled."""
        name = f"{self._resource}.{self.group}" if self.group else self._resource
        self._set_trouble(f"{name} of the hosting cluster have not been read yet")
        if self.group and hosting.serves(self.group):
            self._set_trouble(f"{self.group} is served by this server itself, which must not ask itself through the cluster")
            log.error("an informer of %s can't work: %s", name, self._trouble)
            await asyncio.Event().wait()
        path = path_of(self._api_version, self._resource, self._namespace)

        def keep(item: JSONObject) -> JSONObject:
            # The items of a list of Kubernetes' own kinds have none.
            return self._keep({"apiVersion": self._api_version, **item})

        def failed(error: ClusterError | Unreachable | None) -> None:
            if error is None:
                self._set_trouble("")
            elif isinstance(error, Unreachable):
                self._set_trouble(f"the hosting cluster does not answer: {error.why}")
            else:
                self._set_trouble(f"{name} of the hosting cluster can't be watched: {error.message}")

        reflector = Reflector(
            hosting.cluster, path, self._query, self._take, failed, keep=keep, page_size=_PAGE, sleep=sleep, random=hosting.random
        )
        await reflector.run()

    def _take(self, objects: Mapping[str, JSONObject], changed: AbstractSet[str]) -> None:
        self._objects = objects
        for follower in self._followers:
            follower.keys.update(dict.fromkeys(changed))
        self._set_trouble("")

    def _set_trouble(self, text: str) -> None:
        self._trouble = text
        for follower in self._followers:
            follower.moved.set()
