"""Brings the objects of a definition back to the host through its API, where its etcd can't be reached.

The group-versions are the host's own again by then, and the guard lets this server's writes pass. The API keeps less than etcd
does: an object that was created here gets a new uid, and every object another generation. managedFields are kept, by one more
update: kube-apiserver starts from the managedFields of the request, and an update that changes nothing else leaves them.

Clients are led to the host meanwhile, and see its old objects. So nothing is written before each write was tried by a dry run:
what the host does not take, such as an object that its schema no longer allows to be created, is reported by name.

The dependents of an object that was created here have its old uid in their ownerReferences. Within the definition these are
changed before the host's garbage collector sees them; elsewhere in the cluster it deletes such dependents, of which
`Given.messages` warns.
Source: k8s.io/apiserver pkg/registry/rest (create.go, update.go), k8s.io/apimachinery pkg/util/managedfields/internal/
fieldmanager.go (Update), k8s.io/apiserver pkg/admission/plugin/webhook/errors (NewDryRunUnsupportedErr), v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from aggserver.adoption.give_back.to_etcd import (
    Fault,
    all_of,
    fault_text,
    objects,
    objects_prefix,
    written_here,
)
from aggserver.adoption.records.record import CantGiveBack, Copied, Given, Progress, Refused
from aggserver.adoption.switch.guard import WRITES
from aggserver.cluster import Cluster, ClusterError
from aggserver.meta import codec
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.storage.interface import KeyValue, Storage
from aggserver.storage.keys import split

__all__ = ["UID_BEFORE", "GiveBackThroughAPI", "as_sent", "is_given"]

# On an object that was created here: the uid that it had here. By this an interrupted release finds what it has created.
UID_BEFORE = "aggserver.io/uid-before-release"

PAGE = 500
AT_ONCE = 16  # objects at the same time
MOST_RENAMED = 20  # objects that have a new uid and are named
ATTEMPTS = 6  # of a request to a host that is too busy
_BUSY = (429, 503)
# Codes below 500 that are not about the object: another attempt may succeed.
_PASSING = (401, 408, 409, 429)
_NO_DRY_RUN = "does not support dry run"

# Members of metadata that the host sets, and no update changes.
_HOSTS = ("uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")

Owners = Mapping[str, str]


def as_sent(ours: JSONMapping, theirs: JSONMapping | None, uids: Owners, unknown: frozenset[str] = frozenset()) -> JSONObject:
    """The body by which the host's object becomes ours; theirs: None to create it.

    uids: new uids of objects by their uids here. Owners with one of the `unknown` uids are left out: they have no new one yet.
    """
    given = ours["metadata"]
    metadata = {name: value for name, value in given.items() if name not in _HOSTS and name != "selfLink"}
    if theirs is None:
        metadata["annotations"] = {**(given.get("annotations") or {}), UID_BEFORE: given["uid"]}
    else:
        metadata |= {name: theirs["metadata"][name] for name in _HOSTS if name in theirs["metadata"]}
        if theirs["metadata"]["uid"] != given["uid"]:
            metadata["annotations"] = {**(given.get("annotations") or {}), UID_BEFORE: given["uid"]}
    if "ownerReferences" in given:
        kept = [owner for owner in given["ownerReferences"] if owner["uid"] in uids or owner["uid"] not in unknown]
        metadata["ownerReferences"] = [{**owner, "uid": uids.get(owner["uid"], owner["uid"])} for owner in kept]
        if not kept:
            del metadata["ownerReferences"]
    return {**ours, "metadata": metadata}


def is_given(theirs: JSONMapping, sent: JSONMapping, *, fields: bool) -> bool:
    """Whether the host's object is what was sent. fields: whether managedFields count; their times do not."""
    return bool(_content(theirs, fields=fields) == _content(sent, fields=fields))


def _content(obj: JSONMapping, *, fields: bool) -> Any:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _HOSTS and value not in ({}, [])}
    managed = metadata.pop("managedFields", [])
    entries = sorted(
        (codec.encode_json({name: value for name, value in entry.items() if name != "time"}) for entry in managed)
        if fields
        else []
    )
    return {**obj, "metadata": metadata}, entries


def _is_same(theirs: JSONMapping, ours: JSONMapping) -> bool:
    """Whether the host's object is the same as ours, and not another one of that name."""
    found, wanted = theirs["metadata"], ours["metadata"]["uid"]
    return wanted in (found["uid"], (found.get("annotations") or {}).get(UID_BEFORE))


class GiveBackThroughAPI:
    """A `record.GiveBack` by requests to the host.

    own: our store, started. manifest: the host's CustomResourceDefinition. uids: the new uids of objects by their uids here, one
    mapping for all definitions of a family; objects that were created here are added to it.
    """

    through_api = True

    def __init__(
        self,
        own: Storage,
        cluster: Cluster,
        manifest: JSONMapping,
        uids: dict[str, str],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._own = own
        self._cluster = cluster
        self._sleep = sleep
        self._uids = uids
        spec = manifest["spec"]
        self._definition: str = manifest["metadata"]["name"]
        self._group: str = spec["group"]
        self._plural: str = spec["names"]["plural"]
        self._namespaced = spec["scope"] == "Namespaced"
        self._has_status = {
            version["name"]: "status" in (version.get("subresources") or {}) for version in spec["versions"] if version["served"]
        }
        self._listed = next(
            (version["name"] for version in spec["versions"] if version["served"] and version["storage"]),
            next(iter(self._has_status), ""),
        )
        self._prefix = objects_prefix(self._definition)

    async def unchanged(self, copied: Copied) -> bool:
        """Looks at our store alone: the host's objects can't be seen while the group-versions lead here."""
        return await self._own.count(self._prefix) == copied.count and not await written_here(self._own, self._prefix, copied)

    async def check(self, copied: Copied) -> None:
        if not self._has_status:
            raise CantGiveBack(f"{self._definition}: the host serves none of its versions")

    async def first(self, copied: Copied, progress: Progress) -> Given:
        return Given()

    async def rest(self, copied: Copied, progress: Progress) -> Given:
        keys, faults = await self._differences(copied)
        if faults:
            raise CantGiveBack(fault_text("what the move left at the host has changed", faults))
        refused = await self._each(keys, self._try, progress)
        if refused:
            raise _refusal("the host does not take all objects, so nothing was written", refused)
        pass_ = _Pass()
        # Owners that get a new uid: no reference to them may reach the host before that is known.
        pass_.unknown = frozenset(await self._created(keys))
        for last in (False, True):
            refused += await self._each(list(pass_.again) if last else keys, partial(self._settle, pass_=pass_), progress, pass_)
            # An owner that was refused has no new uid and stays unknown: the garbage collector would delete its dependents.
            pass_.unknown -= self._uids.keys()
        if refused:
            raise _refusal("the host does not take all objects; they are still here", refused)
        return Given(pass_.written, pass_.deleted, pass_.size, tuple(pass_.messages()))

    async def _each(
        self, keys: Sequence[str], do: Callable[[str], Awaitable[None]], progress: Progress, pass_: _Pass | None = None
    ) -> list[Fault]:
        """Call `do` for each key, several at the same time. Returns what the host refuses. Raises other errors of `do`."""
        refused: list[Fault] = []
        for at in range(0, len(keys), AT_ONCE):
            group = keys[at : at + AT_ONCE]
            for key, error in zip(group, await all_of(map(do, group)), strict=True):
                if isinstance(error, _NotServed):
                    refused.append(Fault(key, str(error)))
                elif isinstance(error, ClusterError):
                    if not 400 <= error.code < 500 or error.code in _PASSING:
                        raise CantGiveBack(f"{key} can't be written at the host: {error}") from error
                    refused.append(Fault(key, f"is refused: {error}"))
                elif error is not None:
                    raise error
            progress(min(at + AT_ONCE, len(keys)), len(keys), pass_.size if pass_ is not None else 0)
        return refused

    async def _differences(self, copied: Copied) -> tuple[list[str], list[Fault]]:
        """The keys that may differ, and the objects of the host that somebody else has changed."""
        keys: list[str] = []
        faults: list[Fault] = []
        mine, other = objects(self._own, self._prefix), self._theirs()
        ours, theirs = await anext(mine, None), await anext(other, None)
        while ours is not None or theirs is not None:
            if theirs is None or (ours is not None and ours.key.encode() < theirs[0].encode()):
                assert ours is not None
                if ours.revision <= copied.own_revision:
                    faults.append(Fault(ours.key, "is missing"))
                keys.append(ours.key)
                ours = await anext(mine, None)
            elif ours is None or ours.key != theirs[0]:
                keys.append(theirs[0])
                theirs = await anext(other, None)
            else:
                if ours.revision > copied.own_revision:
                    keys.append(ours.key)
                elif theirs[1] > copied.host_revision:
                    faults.append(Fault(ours.key, f"was written at revision {theirs[1]}, although it has not changed here"))
                ours, theirs = await anext(mine, None), await anext(other, None)
        return keys, faults

    async def _theirs(self) -> AsyncIterator[tuple[str, int]]:
        """(key, resourceVersion) of the host's objects, by key."""
        query = {"limit": str(PAGE)}
        while True:
            page = await self._request("GET", f"/apis/{self._group}/{self._listed}/{self._plural}", query=query)
            for item in page["items"]:
                metadata = item["metadata"]
                place = f"{metadata['namespace']}/" if self._namespaced else ""
                yield f"{self._prefix}{place}{metadata['name']}", int(metadata["resourceVersion"])
            if not page["metadata"].get("continue"):
                return
            query = {"limit": str(PAGE), "continue": page["metadata"]["continue"]}

    async def _created(self, keys: list[str]) -> list[str]:
        """The uids of our objects that the host does not have yet."""
        found = []
        for key in keys:
            ours = await self._ours(key)
            if ours is not None and ours["metadata"]["uid"] not in self._uids:
                theirs = await self._their(self._path(key, self._version(ours, strict=False)))
                if theirs is None or not _is_same(theirs, ours):
                    found.append(ours["metadata"]["uid"])
                elif theirs["metadata"]["uid"] != ours["metadata"]["uid"]:
                    self._uids[ours["metadata"]["uid"]] = theirs["metadata"]["uid"]  # an earlier release has created it
        return found

    async def _ours(self, key: str) -> JSONObject | None:
        item: KeyValue | None = await self._own.get(key)
        if item is not None and item.fault:
            raise CantGiveBack(f"{key} is damaged here: {item.fault}")
        return codec.decode_stored(item.value) if item is not None else None

    def _version(self, obj: JSONMapping, *, strict: bool = True) -> str:
        """The version to send an object in: its stored one. Raises _NotServed if strict and the host does not serve that."""
        version = str(obj["apiVersion"]).rpartition("/")[2]
        if version in self._has_status:
            return version
        if strict:
            raise _NotServed(f"is stored in the version {version}, which the host does not serve")
        return self._listed

    def _path(self, key: str, version: str) -> str:
        parts = split(key)
        place = f"namespaces/{quote(parts.namespace, safe='')}/" if self._namespaced else ""
        return f"/apis/{self._group}/{version}/{place}{self._plural}/{quote(parts.name, safe='')}"

    async def _try(self, key: str) -> None:
        """Try the writes of `_settle` by dry runs, as far as the host allows them. Raises as `_settle`."""
        ours = await self._ours(key)
        path = self._path(key, self._version(ours) if ours is not None else self._listed)
        theirs = await self._their(path)
        if theirs is not None and (ours is None or not _is_same(theirs, ours)):
            await self._dry_run("DELETE", path, _delete_options(theirs))
        elif ours is not None:
            sent = as_sent(ours, theirs, self._uids)
            if theirs is None:
                await self._dry_run("POST", path.rpartition("/")[0], sent)
                return
            if not is_given(theirs, sent, fields=False):
                await self._dry_run("PUT", path, sent)
            if self._has_status[self._version(ours)] and ours.get("status") != theirs.get("status"):
                await self._dry_run("PUT", f"{path}/status", sent)

    async def _dry_run(self, method: str, path: str, body: JSONObject) -> None:
        try:
            if method == "DELETE":  # kube-apiserver takes its options from the body, if there is one
                await self._request(method, path, body={**body, "dryRun": ["All"]})
            else:
                await self._request(method, path, query={"dryRun": "All"}, body=body)
        except ClusterError as error:
            # A webhook with side effects allows no dry run, and an object that is gone needs no deletion.
            if _NO_DRY_RUN not in error.message and (method, error.code) != ("DELETE", 404):
                raise

    async def _settle(self, key: str, pass_: _Pass) -> None:
        """Make the host's object ours. Raises ClusterError, Unreachable, _NotServed, CantGiveBack."""
        ours = await self._ours(key)
        path = self._path(key, self._version(ours) if ours is not None else self._listed)
        theirs = await self._their(path)
        if theirs is not None and (ours is None or not _is_same(theirs, ours)):
            await self._remove(path, theirs)
            pass_.deleted += 1
            theirs = None
        if ours is None:
            return
        uid = ours["metadata"]["uid"]
        sent = as_sent(ours, theirs, self._uids, pass_.unknown)
        complete = as_sent(ours, theirs, self._uids)
        if theirs is None:
            theirs = await self._request("POST", path.rpartition("/")[0], body=sent)
            self._uids[uid] = theirs["metadata"]["uid"]
            pass_.renamed.append((key, uid, theirs["metadata"]["uid"]))
            written = True
        else:
            written = False
            if not is_given(theirs, sent, fields=False):
                theirs = await self._request("PUT", path, body=sent)
                written = True
        theirs, more = await self._finish(path, ours, sent, theirs)
        if (written or more) and key not in pass_.again:
            pass_.written += 1
            pass_.size += len(codec.encode_json(sent))
        if sent["metadata"].get("ownerReferences") != complete["metadata"].get("ownerReferences"):
            pass_.again[key] = None

    async def _finish(self, path: str, ours: JSONMapping, sent: JSONMapping, theirs: JSONObject) -> tuple[JSONObject, bool]:
        """Write what a create or update does not: the status, managedFields, and a deletion that has begun.

        Returns the host's object, and whether anything was written.
        """
        written = False

        def on(current: JSONMapping) -> JSONObject:
            kept = {name: current["metadata"][name] for name in _HOSTS if name in current["metadata"]}
            return {**sent, "metadata": {**{n: v for n, v in sent["metadata"].items() if n not in _HOSTS}, **kept}}

        if self._has_status[self._version(ours)] and ours.get("status") != theirs.get("status"):
            theirs = await self._request("PUT", f"{path}/status", body=on(theirs))
            written = True
        if "managedFields" in sent["metadata"] and not is_given(theirs, sent, fields=True):
            theirs = await self._request("PUT", path, body=on(theirs))
            written = True
        if "deletionTimestamp" in ours["metadata"] and "deletionTimestamp" not in theirs["metadata"]:
            await self._request("DELETE", path, body=_delete_options(theirs))
            written = True
        return theirs, written

    async def _their(self, path: str) -> JSONObject | None:
        try:
            return await self._request("GET", path)
        except ClusterError as error:
            if error.code == 404:
                return None
            raise

    async def _remove(self, path: str, theirs: JSONMapping) -> None:
        """Remove an object of the host that was deleted here. Its finalizers are taken off: they were handled here."""
        try:
            if theirs["metadata"].get("finalizers"):
                known = {name: theirs["metadata"][name] for name in ("uid", "resourceVersion")}
                await self._request("PATCH", path, body={"metadata": {**known, "finalizers": None}})
            await self._request("DELETE", path, body=_delete_options(theirs))
        except ClusterError as error:
            if error.code != 404:
                raise

    async def _request(self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None) -> JSONObject:
        for _ in range(ATTEMPTS - 1):
            try:
                return await self._cluster.request(method, path, query=query, body=body, timeout=30.0)
            except ClusterError as error:
                # The guard of a lost server fails until each kube-apiserver has seen that this client is exempt from it.
                if error.code not in _BUSY and f'"{WRITES}"' not in error.message:
                    raise
                await self._sleep(max(1.0, float(error.retry_after)))
        return await self._cluster.request(method, path, query=query, body=body, timeout=30.0)


class _NotServed(Exception):
    """The object can't be sent in its version."""


class _Pass:
    """What one call of `rest` has done. again: keys of objects whose owners had no new uid yet."""

    def __init__(self) -> None:
        self.unknown: frozenset[str] = frozenset()
        self.again: dict[str, None] = {}
        self.renamed: list[tuple[str, str, str]] = []
        self.written = self.deleted = self.size = 0

    def messages(self) -> list[str]:
        if not self.renamed:
            return []
        lines = [f"{key} has the uid {new}, and had {old} here" for key, old, new in self.renamed[:MOST_RENAMED]]
        if len(self.renamed) > MOST_RENAMED:
            lines.append(
                f"and {len(self.renamed) - MOST_RENAMED} more have new uids; their annotation {UID_BEFORE} has the old one"
            )
        return [*lines, "objects elsewhere in the cluster that are owned by one of these are deleted by the garbage collector"]


def _refusal(what: str, refused: Sequence[Fault]) -> Refused:
    return Refused(f"{fault_text(what, refused)}. Change or delete them, and ask for the release again")


def _delete_options(theirs: JSONMapping) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": theirs["metadata"]["uid"]},
        "propagationPolicy": "Background",
    }
