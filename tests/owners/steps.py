"""The requests of a history: who writes what how, drawn from what the object is now.

A step is a request with the same bytes for both servers but for what only a server can give: in `path` and `body` stand `$name`
for the object, `$rv`, `$stale` and `$uid` for what its metadata has and had, and `"$managed"` for its managedFields.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.owners.schemas import GROUP, Definition, Generator

__all__ = ["APPLY", "CHANGE", "NAMESPACE", "Step", "Story", "url"]

NAMESPACE = "owners"

_JSON = "application/json"
APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"

_MANAGERS = ("alpha", "beta", "gamma", "delta")
_AGENTS = ("alpha/v1.0 (linux)", "omega/2", "omega", "kubectl/v1.36 x", "/slash", "x" * 140)
_ODD_MANAGERS = ("", "x" * 129, "tab\tbed", "ancient-changes", "before-first-apply", "with space", "é")
_CLIENT_SIDE = "kubectl-client-side-apply"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_CROWD = 14

Object = dict[str, Any]


@dataclass(frozen=True)
class Step:
    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None

    def __str__(self) -> str:
        if self is CHANGE:
            return "the definition changes"
        body = "" if self.body is None else f" {json.dumps(self.body)}"
        return f"{self.method} {self.path} {json.dumps(self.headers)}{body}"


# Stands for the change of the definition.
CHANGE = Step("", "")


def url(plural: str, version: str, subresource: str = "", *, name: str = "$name", **query: str) -> str:
    parts = [f"/apis/{GROUP}/{version}/namespaces/{NAMESPACE}/{plural}", name, subresource]
    return "/".join(filter(None, parts)) + (f"?{urlencode(query)}" if query else "")


class Story:
    """Draws one step after the other. `now` is the object as kube-apiserver has it, None where there is none."""

    def __init__(self, seed: str, definition: Definition) -> None:
        self.seed = seed
        self.definition = definition
        self.now: Object | None = None
        self._chance = random.Random(seed)
        self._draw = Generator(self._chance)
        self._odds = self._draw.odds
        self._configs: dict[tuple[str, str], Object] = {}
        self._tried: tuple[tuple[str, str], Object] | None = None
        # The last one goes when the definition changes, and then no apply to what was written in it is taken.
        self._versions = definition.versions[:2] * 3 + definition.versions[2:]
        self._crowded = self._odds(12)

    def answered(self, now: Object | None, *, accepted: bool) -> None:
        """What has become of the last step; a configuration that was refused is not the next one's beginning."""
        self.now = now
        if accepted and self._tried is not None:
            key, content = self._tried
            self._configs[key] = content
        self._tried = None

    def without_lost_version(self) -> None:
        """The definition has changed, and seldom does somebody still write in the version that it lost."""
        self._versions = self._versions[:2] * 8 + self._versions[2:]

    def version(self) -> str:
        return self._chance.choice(self._versions)

    def next(self) -> Step:
        draws: list[tuple[float, Callable[[], Step]]] = (
            [(30, self._create), (65, self._apply), (2, self._put), (2, self._merge), (1, self._delete)]
            if self.now is None
            else [
                (2, self._create),
                (30, self._apply),
                (14, self._put),
                (13, self._merge),
                (10, self._json_patch),
                (5, self._put_status),
                (5, self._merge_status),
                (7, self._apply_status),
                (5, self._put_scale),
                (4, self._merge_scale),
                (3, self._client_side),
                (2, self._delete),
            ]
        )
        weights, makers = zip(*draws, strict=True)
        step: Step = self._chance.choices(makers, weights)[0]()
        return step

    # --- what a request has beside its body ---

    def _request(
        self, method: str, version: str, body: Any, kind: str, subresource: str = "", *, manager: str | None = None, **query: str
    ) -> Step:
        headers = {"accept": _JSON, "content-type": kind, "user-agent": self._chance.choice(_AGENTS)}
        if manager is None and kind != APPLY:
            if self._crowded:
                manager = f"m{self._chance.randrange(_CROWD)}"
            elif self._odds(60):
                manager = self._chance.choice(_MANAGERS)
            elif self._odds(3):
                manager = self._chance.choice(_ODD_MANAGERS)
        if manager is not None:
            query["fieldManager"] = manager
        if self._odds(5):
            query["dryRun"] = "All"
            if kind == APPLY and self.now is None:
                # kube-apiserver shows it in what it did not store.
                body["metadata"].pop("resourceVersion", None)
        if self._odds(20):
            query["fieldValidation"] = self._chance.choice(["Strict", "Warn", "Ignore"])
        name = "" if method == "POST" else "$name"
        return Step(method, url(self.definition.plural, version, subresource, name=name, **query), headers, body)

    def _identity(self, version: str, metadata: Object) -> Object:
        if self._odds(1):
            version = "v9"
        return {"apiVersion": f"{GROUP}/{version}", "kind": self.definition.kind, "metadata": {"name": "$name", **metadata}}

    def _metadata(self) -> Object:
        """Labels and the like, as a writer may say them."""
        metadata: Object = {}
        if self._odds(30):
            metadata["labels"] = {name: self._chance.choice("xyz") for name in self._chance.sample("ab", 1)}
        if self._odds(20):
            metadata["annotations"] = {name: self._chance.choice("xyz") for name in self._chance.sample("ab", 1)}
        if self._odds(12):
            metadata["finalizers"] = self._chance.sample(["example.com/a", "example.com/b"], self._chance.randint(0, 2))
        if self._odds(10):
            uids = self._chance.sample(["11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"], 1)
            metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid} for uid in uids]
        return metadata

    def _content(self, version: str) -> Object:
        schema = self.definition.schemas[version]
        content = self._draw.obj(schema)
        if self._odds(2):
            content["unknown"] = self._draw.anything()
        if "status" in content and self._odds(60):
            del content["status"]
        return content

    # --- creating and applying ---

    def _create(self) -> Step:
        version = self.version()
        metadata = self._metadata()
        if self._odds(4):
            metadata["managedFields"] = self._entries(version)
        return self._request("POST", version, self._identity(version, metadata) | self._content(version), _JSON)

    def _apply(self) -> Step:
        version = self.version()
        manager = self._chance.choice(_MANAGERS[:3])
        config = self._config(version, manager, "")
        query = {"force": self._chance.choice(["true", "true", "false"])} if self._odds(65) else {}
        if self._odds(1):
            return self._request("PATCH", version, config, APPLY, **query)
        if self._odds(2):
            manager = self._chance.choice(_ODD_MANAGERS)
        return self._request("PATCH", version, config, APPLY, manager=manager, **query)

    def _config(self, version: str, manager: str, subresource: str) -> Object:
        """What the manager applied last with some changes, or something new."""
        fresh = self._metadata() | self._content(version)
        last = self._configs.get((manager, subresource))
        content = (
            last
            if last is not None and self._odds(10)
            else self._draw.mixed(last, fresh)
            if last is not None and self._odds(75)
            else fresh
        )
        if subresource:
            content = {name: value for name, value in content.items() if name == "status" or self._odds(10)}
            content.setdefault("status", self._draw.value(self.definition.schemas[version]["properties"]["status"]))
        self._tried = ((manager, subresource), content)
        names = ("labels", "annotations", "finalizers", "ownerReferences")
        # An empty one kube-apiserver stores and never shows, so that only the resourceVersion changes.
        metadata = {name: content[name] for name in names if content.get(name)}
        if self._odds(6):
            metadata["resourceVersion"] = self._chance.choice(["$rv", "$rv", "$stale", "0", "", "x"])
        if self._odds(4):
            metadata["uid"] = self._chance.choice(["$uid", "33333333-0000-4000-8000-000000000000"])
        if self._odds(1.5):
            metadata["managedFields"] = self._chance.choice([None, [], [{}], self._entries(version)])
        if self._odds(1):
            metadata["unknown"] = 1
        return self._identity(version, metadata) | {name: value for name, value in content.items() if name not in names}

    def _client_side(self) -> Step:
        """kubectl's client-side apply, and its server-side apply that takes over from it."""
        version = self.version()
        config = self._config(version, "kubectl", "")
        if self._odds(50):
            return self._request("PATCH", version, config, APPLY, manager="kubectl", force="true")
        # What differs from server to server must not get into a text.
        for name in ("resourceVersion", "uid"):
            config["metadata"].pop(name, None)
        last = json.dumps(config) if self._odds(90) else self._chance.choice(["", "x", "{}", '{"apiVersion":"v1"}'])
        metadata = {**config["metadata"], "annotations": {_LAST_APPLIED: last}}
        return self._request("PATCH", version, config | {"metadata": metadata}, _MERGE, manager=_CLIENT_SIDE)

    # --- updates ---

    def _read(self, version: str) -> Object:
        """The object as it would be sent back by who has read it."""
        now: Object = json.loads(json.dumps(self.now or self._identity(version, {}) | self._content(version)))
        metadata = now["metadata"] | {"name": "$name", "resourceVersion": "$rv", "uid": "$uid", "managedFields": "$managed"}
        return now | {"apiVersion": f"{GROUP}/{version}", "metadata": metadata}

    def _changed(self, version: str) -> Object:
        obj = self._read(version)
        fresh = self._content(version)
        metadata = obj["metadata"]
        for name, value in self._metadata().items():
            metadata[name] = value if self._odds(50) else self._draw.mixed(metadata.get(name, value), value)
        for name in ("labels", "annotations", "finalizers", "ownerReferences"):
            if name in metadata and self._odds(15):
                del metadata[name]
        self._disturb(metadata, version)
        head = {name: obj.pop(name) for name in ("apiVersion", "kind", "metadata")}
        if self._odds(8):
            return head | obj
        return head | (self._draw.mixed(obj, fresh) if self._odds(85) else fresh)

    def _disturb(self, metadata: Object, version: str) -> None:
        if self._odds(5):
            metadata["resourceVersion"] = self._chance.choice(["$stale", "", "0", "x"])
        elif self._odds(2):
            del metadata["resourceVersion"]
        if self._odds(2):
            metadata["uid"] = "33333333-0000-4000-8000-000000000000"
        elif self._odds(15):
            del metadata["uid"]
        if self._crowded and self._odds(40):
            metadata["managedFields"] = self._crowd()
        elif self._odds(12):
            metadata["managedFields"] = self._chance.choice(
                [None, None, [], [{}], self._entries(version), self._entries(version)]
            )

    def _entries(self, version: str) -> list[Any]:
        """managedFields as a client may write them: right ones with a change, or wrong ones."""
        entries: list[Object] = json.loads(json.dumps(self.now["metadata"].get("managedFields", []) if self.now else []))
        if not entries:
            fields: Object = {"f:spec": {".": {}, "f:a": {}, "f:b": {".": {}, 'k:{"k":"a"}': {"f:k": {}}, 'v:"a"': {}}}}
            first = {"apiVersion": f"{GROUP}/{version}", "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": "alpha"}
            entries = [first | {"operation": "Update", "time": "2020-01-01T00:00:00Z"}]
        entry = self._chance.choice(entries)
        match self._chance.randrange(11):
            case 0:
                entries.remove(entry)
            case 1:
                entry["manager"] = self._chance.choice(_MANAGERS)
            case 2:
                entry["operation"] = self._chance.choice(["Apply", "Update", "Delete", ""])
            case 3:
                entry["time"] = self._chance.choice(["2020-01-01T00:00:00Z", None, "2020-01-01T00:00:00.5Z"])
            case 4:
                entry["apiVersion"] = self._chance.choice([f"{GROUP}/v1", f"{GROUP}/v8", "other.example.com/v1", ""])
            case 5:
                entry["fieldsV1"] = self._chance.choice(
                    [
                        {},
                        None,
                        {"f:spec": {}},
                        {"spec": {}},
                        {"x:y": {}},
                        {"k:{": {}},
                        {"f:spec": {"f:a": {"v:1": {}, "i:0": {}}}},
                    ]
                )
            case 6:
                entry["fieldsType"] = self._chance.choice(["", "FieldsV2"])
            case 7:
                entry["subresource"] = self._chance.choice(["status", "scale", ""])
            case 8:
                del entry[self._chance.choice(list(entry))]
            case 9:
                entries.append(dict(entry))
            case _:
                entry["fieldsV1"] = {"f:spec": {".": {}, "f:a": {}, "f:replicas": {}}, "f:metadata": {"f:labels": {"f:a": {}}}}
        return entries

    def _crowd(self) -> list[Any]:
        """More managers than are kept apart, who wrote a while ago."""
        entries: list[Object] = json.loads(json.dumps(self.now["metadata"].get("managedFields", []) if self.now else []))
        for number in range(self._chance.randint(6, _CROWD)):
            fields: Object = {f"f:{self._chance.choice(['spec', 'status'])}": {f"f:{self._chance.choice('abcd')}": {}}}
            entry = {"apiVersion": f"{GROUP}/{self.version()}", "fieldsType": "FieldsV1", "fieldsV1": fields}
            entry |= {"manager": f"m{number}", "operation": "Update", "time": f"2020-01-01T00:00:0{self._chance.randint(0, 5)}Z"}
            entries.append(entry | self._chance.choice([{}, {"subresource": "status"}]))
        return entries

    def _put(self) -> Step:
        version = self.version()
        return self._request("PUT", version, self._changed(version), _JSON)

    def _merge(self, subresource: str = "") -> Step:
        version = self.version()
        metadata: Object = self._metadata()
        for name in list(metadata):
            if self._odds(20):
                metadata[name] = None
        if self._odds(8):
            self._disturb(metadata := {"uid": "$uid", "resourceVersion": "$rv", **metadata}, version)
        content = self._content(version)
        if self._odds(25) and isinstance(content.get("spec"), dict):
            content["spec"] |= dict.fromkeys(self._chance.sample("abcd", 1))
        patch = content | ({"metadata": metadata} if metadata else {})
        return self._request("PATCH", version, patch, _MERGE, subresource)

    def _json_patch(self, subresource: str = "") -> Step:
        version = self.version()
        operations: list[Object] = []
        places = list(_places(self.now or {}))
        for _ in range(self._chance.randint(1, 3)):
            part = self._chance.choice(["spec", "spec", "status"])
            properties = self.definition.schemas[version]["properties"][part].get("properties") or {"a": {}}
            name = self._chance.choice(list(properties))
            value = self._draw.value(properties[name])
            match self._chance.randrange(6):
                case 0 if places:
                    operations.append({"op": "remove", "path": self._chance.choice(places)})
                case 1 if places:
                    operations.append({"op": "replace", "path": self._chance.choice(places), "value": self._draw.anything()})
                case 2:
                    value = self._chance.choice([[], [{}], self._entries(version)])
                    operations.append({"op": "replace", "path": "/metadata/managedFields", "value": value})
                case 3:
                    operations.append({"op": "test", "path": "/metadata/resourceVersion", "value": "$rv"})
                case _:
                    operations.append({"op": "add", "path": f"/{part}/{name}", "value": value})
        return self._request("PATCH", version, operations, _JSON_PATCH, subresource)

    # --- subresources ---

    def _put_status(self) -> Step:
        version = self.version()
        obj = self._changed(version)
        obj["status"] = self._draw.value(self.definition.schemas[version]["properties"]["status"])
        return self._request("PUT", version, obj, _JSON, "status")

    def _merge_status(self) -> Step:
        if self._odds(25):
            return self._json_patch("status")
        step = self._merge("status")
        version = step.path.split("/")[3]
        status = self._draw.value(self.definition.schemas[version]["properties"]["status"])
        return Step(step.method, step.path, step.headers, {**step.body, "status": status})

    def _apply_status(self) -> Step:
        version = self.version()
        manager = self._chance.choice(_MANAGERS[1:])
        query = {"force": "true"} if self._odds(50) else {}
        return self._request(
            "PATCH", version, self._config(version, manager, "status"), APPLY, "status", manager=manager, **query
        )

    def _put_scale(self) -> Step:
        version = self._chance.choice(self.definition.scaled or self.definition.versions)
        metadata: Object = {"name": "$name", "namespace": NAMESPACE}
        if self._odds(40):
            metadata |= {"resourceVersion": self._chance.choice(["$rv", "$rv", "$stale"]), "uid": "$uid"}
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": self._replicas()}
        return self._request("PUT", version, scale, _JSON, "scale")

    def _merge_scale(self) -> Step:
        version = self._chance.choice(self.definition.scaled or self.definition.versions)
        return self._request("PATCH", version, {"spec": self._replicas()}, _MERGE, "scale")

    def _replicas(self) -> Object:
        return {"replicas": self._chance.choice([0, 1, 2, 2, 3, 3, -1])} if self._odds(95) else {}

    # --- deleting ---

    def _delete(self) -> Step:
        body = {"propagationPolicy": "Background"} if self._odds(50) else None
        headers = {"accept": _JSON, "user-agent": self._chance.choice(_AGENTS)} | ({"content-type": _JSON} if body else {})
        version = self.version()
        if self._odds(30):
            return Step(
                "DELETE", url(self.definition.plural, version, name="") + "?fieldSelector=metadata.name=$name", headers, body
            )
        return Step("DELETE", url(self.definition.plural, version), headers, body)


def _places(value: Any, where: str = "") -> Iterator[str]:
    """Pointers to all values of an object but the metadata that is the server's."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    for key, child in items:
        if where == "/metadata" and key not in ("labels", "annotations", "finalizers", "ownerReferences"):
            continue
        place = f"{where}/{str(key).replace('~', '~0').replace('/', '~1')}"
        if place not in ("/metadata", "/apiVersion", "/kind"):
            yield place
        yield from _places(child, place)
