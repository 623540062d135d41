"""FakeCluster: an API server in memory that implements the `Cluster` protocol.

Collections support GET (with pages, label selectors, and metadata.name field selectors), POST, PUT, PATCH (merge and JSON
patches), DELETE and watches, with resourceVersions, conflicts and preconditions. Other paths, such as reviews, are handled by
functions (`on`). `fail` injects failures.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from aggserver.cluster import ClusterError, Unreachable
from aggserver.cluster.outage import Outage
from aggserver.merge.patch import JsonPatchError, apply_json_patch, parse_json_patch
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import LabelSelector

Answer = Callable[[JSONObject], JSONObject]


def status(code: int, reason: str, message: str = "", retry_after: int = 0) -> ClusterError:
    return ClusterError(code, reason, message or reason, retry_after)


class FakeCluster:
    """objects: path of a collection -> name -> object. calls: (method, path) of every request. bodies: their bodies.
    dry_runs: the places in `calls` of those that were dry runs.

    headers: path -> the headers of its responses. sent_headers: the additional ones of each request.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, JSONObject]] = {}
        self.calls: list[tuple[str, str]] = []
        self.sent_headers: list[tuple[tuple[str, str], ...]] = []
        self.bodies: list[Any] = []
        self.dry_runs: set[int] = set()
        self.headers: dict[str, dict[str, str]] = {}
        self.watches = 0
        self.outage = Outage()
        self._revision = 100
        self._oldest = 0
        self._generation = 0
        self._log: list[tuple[int, str, JSONObject]] = []
        self._changed = asyncio.Condition()
        self._answers: dict[tuple[str, str], Answer] = {}
        self._failures: list[tuple[str, str, Exception, bool]] = []

    @property
    def server(self) -> str:
        return "https://fake.test:6443"

    def on(self, method: str, path: str, answer: Answer) -> None:
        """Handle requests by a function from the body to the response, which may raise ClusterError."""
        self._answers[method, path] = answer

    def fail(self, method: str, path: str, error: ClusterError | Unreachable, times: int = 1, *, dry_runs: bool = True) -> None:
        """Let the next `times` such requests fail. method: WATCH for watches. dry_runs: whether dry runs are such requests."""
        self._failures += [(method, path, error, dry_runs)] * times

    async def put(self, collection: str, obj: JSONObject) -> JSONObject:
        """Create or replace an object as another client would, without a precondition."""
        return await self._write("MODIFIED" if obj["metadata"]["name"] in self._of(collection) else "ADDED", collection, obj)

    async def remove(self, collection: str, name: str) -> None:
        await self._write("DELETED", collection, self._of(collection).pop(name))

    def compact(self) -> None:
        """Make every resourceVersion until now too old for a watch."""
        self._revision += 1
        self._oldest = self._revision

    async def end_watches(self) -> None:
        """End all watches, as an API server does that restarts."""
        async with self._changed:
            self._generation += 1
            self._changed.notify_all()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        timeout: float = 10.0,  # noqa: ASYNC109
        accept: str = "",
        headers: Sequence[tuple[str, str]] = (),
    ) -> JSONObject:
        self.sent_headers.append(tuple(headers))
        # The options of a deletion are in its body, if it has one.
        is_dry_run = "dryRun" in body if method == "DELETE" and body else (query or {}).get("dryRun") == "All"
        if is_dry_run:
            self.dry_runs.add(len(self.calls))
        self.calls.append((method, path))
        self.bodies.append(copy.deepcopy(body))
        self._maybe_fail(method, path, is_dry_run=is_dry_run)
        # Let other tasks run in between, as with a network.
        await asyncio.sleep(0)
        if (method, path) in self._answers:
            return self._answers[method, path](body)
        if method != "GET" and is_dry_run:
            return dict(body)
        if "as=Table" in accept:
            return {"kind": "Table", "rows": [{"cells": [name]} for name in sorted(self._of(path))]}
        if method == "GET":
            return self._get(path, query or {})
        if method == "POST":
            return await self._create(path, body)
        collection, _, name = path.rpartition("/")
        if name not in self._of(collection):
            raise status(404, "NotFound", f'"{name}" not found')
        if method == "PUT":
            return await self._update(collection, name, body)
        if method == "PATCH":
            return await self._write("MODIFIED", collection, _patched(self._of(collection)[name], body))
        return await self._delete(collection, name, body)

    async def header(self, path: str, name: str) -> str:
        await self.request("GET", path)
        return self.headers.get(path, {}).get(name, "")

    async def watch(
        self,
        path: str,
        query: Mapping[str, str],
        headers: Sequence[tuple[str, str]] = (),
        on_open: Callable[[], object] = lambda: None,
    ) -> AsyncGenerator[JSONObject, None]:
        self.watches += 1
        self.sent_headers.append(tuple(headers))
        self._maybe_fail("WATCH", path)
        on_open()
        seen = int(query["resourceVersion"])
        if seen < self._oldest:
            yield {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
            return
        generation = self._generation
        while self._generation == generation:
            for revision, kind, event in [entry for entry in self._log if entry[0] > seen]:
                seen = revision
                if event["collection"] == path and _selected(event["object"], query):
                    yield {"type": kind, "object": copy.deepcopy(event["object"])}
            async with self._changed:
                # Compaction increases the revision without an event.
                if (not self._log or self._log[-1][0] <= seen) and self._generation == generation:
                    await self._changed.wait()

    async def close(self) -> None:
        return None

    def _of(self, collection: str) -> dict[str, JSONObject]:
        return self.objects.setdefault(collection, {})

    def _maybe_fail(self, method: str, path: str, *, is_dry_run: bool = False) -> None:
        for index, (wanted_method, wanted_path, error, dry_runs) in enumerate(self._failures):
            if (wanted_method, wanted_path) == (method, path) and (dry_runs or not is_dry_run):
                del self._failures[index]
                raise error

    def _get(self, path: str, query: Mapping[str, str]) -> JSONObject:
        if not _is_collection(path):
            collection, _, name = path.rpartition("/")
            found = self._of(collection).get(name)
            if found is None:
                raise status(404, "NotFound", f'"{name}" not found')
            return copy.deepcopy(found)
        items = [copy.deepcopy(item) for item in self._of(path).values() if _selected(item, query)]
        metadata = {"resourceVersion": str(self._revision)}
        if limit := int(query.get("limit") or 0):
            start = int(query.get("continue") or 0)
            if len(items) > start + limit:
                metadata["continue"] = str(start + limit)
            items = items[start : start + limit]
        return {"kind": "List", "metadata": metadata, "items": items}

    async def _create(self, path: str, body: JSONObject) -> JSONObject:
        name = body["metadata"]["name"]
        if name in self._of(path):
            raise status(409, "AlreadyExists", f'"{name}" already exists')
        obj = copy.deepcopy(body)
        return await self._write("ADDED", path, obj)

    async def _update(self, collection: str, name: str, body: JSONObject) -> JSONObject:
        current = self._of(collection)[name]["metadata"]["resourceVersion"]
        if body["metadata"].get("resourceVersion", current) != current:
            raise status(409, "Conflict", "the object has been modified")
        return await self._write("MODIFIED", collection, body)

    async def _delete(self, collection: str, name: str, body: Any) -> JSONObject:
        uid = ((body or {}).get("preconditions") or {}).get("uid")
        if uid is not None and uid != self._of(collection)[name]["metadata"].get("uid"):
            raise status(409, "Conflict", "the UID in the precondition does not match")
        await self.remove(collection, name)
        return {"kind": "Status", "status": "Success"}

    async def _write(self, kind: str, collection: str, obj: JSONObject) -> JSONObject:
        async with self._changed:
            self._revision += 1
            stored = copy.deepcopy(obj)
            stored["metadata"].setdefault("uid", f"uid-{self._revision}")
            stored["metadata"]["resourceVersion"] = str(self._revision)
            if kind != "DELETED":
                self._of(collection)[stored["metadata"]["name"]] = stored
            self._log.append((self._revision, kind, {"collection": collection, "object": stored}))
            self._changed.notify_all()
        return copy.deepcopy(stored)


def _is_collection(path: str) -> bool:
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return len(parts) == 1


def _selected(obj: JSONObject, query: Mapping[str, str]) -> bool:
    labels = LabelSelector.parse(query.get("labelSelector", ""))
    selector = query.get("fieldSelector", "")
    return labels.matches(obj["metadata"].get("labels") or {}) and selector in ("", f"metadata.name={obj['metadata']['name']}")


def _patched(target: JSONObject, patch: Any) -> JSONObject:
    if not isinstance(patch, list):
        return _merged(target, patch)
    try:
        return apply_json_patch(copy.deepcopy(target), parse_json_patch(patch))
    except JsonPatchError as error:
        raise status(422, "Invalid", str(error)) from error


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = _merged(out.get(key), value)
    return out
