"""Who owns what of objects whose definition has changed since, or that have no managedFields: as kube-apiserver tells it."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.comparison import APPLY_PATCH, MERGE_PATCH, comparable
from tests.integration.raw import Client
from tests.integration.server import Standalone, eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TERMINATING = 'k:{"type":"Terminating"}'
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CARD = {"type": "object", "required": ["name", "port"], "properties": {"name": STRING, "port": INTEGER, "value": STRING}}
PLAIN = {"type": "array", "items": CARD}


def keyed(*keys: str) -> dict[str, Any]:
    return {**PLAIN, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def typed(**types: Any) -> dict[str, Any]:
    """The schema of an object with these members in its spec."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": types}}}


NAMED = {"cards": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}
PAIRS, WHOLE = {"type": "object", "additionalProperties": STRING}, {"x-kubernetes-map-type": "atomic"}

# Name -> (the schema before, the one after, the spec that is applied first, the spec that is applied then).
SCHEMAS: dict[str, tuple[Any, Any, Any, Any]] = {
    "other-keys": (typed(cards=keyed("name")), typed(cards=keyed("name", "port")), NAMED, NAMED),
    "quite-other-keys": (typed(cards=keyed("name")), typed(cards=keyed("port")), NAMED, {"cards": NAMED["cards"][:1]}),
    "keys-to-atomic": (typed(cards=keyed("name")), typed(cards=PLAIN), NAMED, NAMED),
    "keys-to-atomic-and-less": (typed(cards=keyed("name")), typed(cards=PLAIN), NAMED, {"cards": NAMED["cards"][:1]}),
    "atomic-to-keys": (typed(cards=PLAIN), typed(cards=keyed("name")), NAMED, {"cards": NAMED["cards"][:1]}),
    "set-to-atomic": (
        typed(tags={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}),
        typed(tags={"type": "array", "items": STRING}),
        {"tags": ["a", "b"]},
        {"tags": ["b"]},
    ),
    "atomic-to-set": (
        typed(tags={"type": "array", "items": STRING}),
        typed(tags={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}),
        {"tags": ["a", "b"]},
        {"tags": ["b"]},
    ),
    "granular-to-atomic": (
        typed(pairs=PAIRS),
        typed(pairs=PAIRS | WHOLE),
        {"pairs": {"a": "b", "c": "d"}},
        {"pairs": {"a": "b"}},
    ),
    "atomic-to-granular": (
        typed(pairs=PAIRS | WHOLE),
        typed(pairs=PAIRS),
        {"pairs": {"a": "b", "c": "d"}},
        {"pairs": {"a": "b"}},
    ),
    "anything-to-typed": (
        typed(any=ANYTHING),
        typed(any={"type": "object", "properties": {"a": STRING}}),
        {"any": {"a": "b", "c": {"d": 1}}},
        {"any": {"a": "c"}},
    ),
    "typed-to-anything": (typed(any={"type": "object", "properties": {"a": PLAIN}}), typed(any=ANYTHING), {"any": {"a": []}}, {}),
    "field-gone": (typed(a=STRING, b=STRING), typed(a=STRING), {"a": "x", "b": "y"}, {"a": "z"}),
    "other-type": (typed(a=STRING), typed(a=INTEGER), {"a": "x"}, {"a": 1}),
}


@pytest.fixture(scope="module")
def clients(control_plane: Cluster, standalone: Standalone) -> Iterator[tuple[Client, Client]]:
    with Client(control_plane.kubeconfig) as upstream, Client(standalone.kubeconfig) as ours:
        yield upstream, ours


def asked(client: Client, method: str, where: str, body: Any = None, kind: str = "application/json") -> Any:
    """[status, body] of an answer."""
    answer = client.request(method, where, {"content-type": kind}, None if body is None else json.dumps(body).encode())
    return [answer.status, json.loads(answer.body) if answer.body.startswith(b"{") else answer.body.decode()]


class World:
    """One server with a definition of its own, and what it has answered so far."""

    def __init__(self, client: Client, name: str, *versions: tuple[str, Any]) -> None:
        self.group = f"{name}.changed.example.com"
        self.seen: list[Any] = []
        self._client = client
        self._definition = f"{DEFINITIONS}/bolts.{self.group}"
        self._versions = dict(versions)
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"bolts.{self.group}"},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {"plural": "bolts", "kind": "Bolt"},
                "versions": self._written({}, 0),
            },
        }
        assert asked(client, "POST", DEFINITIONS, body)[0] == 201
        eventually(lambda: self._applied("probe", {}, name="probe")[0] == 201, "the definition is served")

    def change(self, *versions: tuple[str, Any], served: bool = True) -> None:
        """Gives the definition these versions. served: of all but the first."""
        gone = {name: schema for name, schema in self._versions.items() if name not in dict(versions)}
        self._versions = dict(versions)
        patch = {"spec": {"versions": self._written({"served": served}, 1)}}
        told = asked(self._client, "PATCH", self._definition, patch, MERGE_PATCH)
        assert told[0] == 200, told
        eventually(self._is_changed, "the changed definition is served")
        for name in gone if served else [name for name, _ in versions[1:]]:
            eventually(lambda: self.get("probe", name)[0] == 404, "the version is served no more")  # noqa: B023

    def _is_changed(self) -> bool:
        made = self._applied("probe", {}, name="other", more="&dryRun=All")[1]
        return bool(made.get("spec", {}).get("mark"))

    def _written(self, more: dict[str, Any], mark: int) -> list[Any]:
        """mark: the default of a field by which it is seen that the definition is in force."""
        found = []
        for index, (name, schema) in enumerate(self._versions.items()):
            marked = copy.deepcopy(schema)
            spec = marked["properties"].setdefault("spec", {"type": "object"})
            spec.setdefault("properties", {})["mark"] = {"type": "integer", "default": mark}
            version = {"name": name, "served": True, "storage": index == 0, "schema": {"openAPIV3Schema": marked}}
            found.append(version | (more if index else {}))
        return found

    def _where(self, name: str, version: str) -> str:
        return f"/apis/{self.group}/{version}/namespaces/default/bolts/{name}"

    def get(self, name: str = "a", version: str = "v1") -> Any:
        return asked(self._client, "GET", self._where(name, version))

    def _applied(self, manager: str, spec: Any, name: str = "a", version: str = "v1", more: str = "") -> Any:
        body = {"apiVersion": f"{self.group}/{version}", "kind": "Bolt", "metadata": {"name": name}, "spec": spec}
        return asked(self._client, "PATCH", f"{self._where(name, version)}?fieldManager={manager}{more}", body, APPLY_PATCH)

    def apply(self, manager: str, spec: Any, version: str = "v1", *, force: bool = False) -> None:
        self.seen.append(self._applied(manager, spec, version=version, more="&force=true" if force else ""))

    def merge(self, manager: str, patch: Any, version: str = "v1") -> None:
        where = f"{self._where('a', version)}?fieldManager={manager}"
        self.seen.append(asked(self._client, "PATCH", where, patch, MERGE_PATCH))

    def close(self) -> None:
        asked(self._client, "DELETE", self._definition)


def compare(clients: tuple[Client, Client], play: Callable[[Client], list[Any]]) -> None:
    with ThreadPoolExecutor(2) as pool:
        upstream, ours = pool.map(play, clients)
    assert comparable(ours) == comparable(upstream)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_changed_schema(clients: tuple[Client, Client], name: str) -> None:
    before, after, first, then = SCHEMAS[name]

    def play(client: Client) -> list[Any]:
        world = World(client, name, ("v1", before))
        try:
            world.apply("one", first)
            world.apply("two", first)
            world.merge("three", {"metadata": {"labels": {"a": "b"}}})
            world.change(("v1", after))
            world.seen.append(world.get())
            world.merge("three", {"metadata": {"labels": {"a": "c"}}})
            world.apply("one", then)
            world.apply("one", then, force=True)
            world.apply("two", then)
            world.apply("four", {})
            world.apply("one", {})
            world.apply("two", {})
            return world.seen
        finally:
            world.close()

    compare(clients, play)


VERSIONED = typed(a=STRING, b=STRING, cards=keyed("name"))


@pytest.mark.parametrize("how", ["removed", "not-served"])
def test_a_version_that_is_no_more(clients: tuple[Client, Client], how: str) -> None:
    def play(client: Client) -> list[Any]:
        world = World(client, f"version-{how}", ("v1", VERSIONED), ("v2", VERSIONED))
        try:
            world.apply("one", {"a": "x"}, "v2")
            world.apply("two", {"b": "y"}, "v1")
            world.merge("three", {"spec": {"cards": [{"name": "n", "port": 1}]}}, "v2")
            world.merge("four", {"metadata": {"labels": {"a": "b"}}}, "v1")
            if how == "removed":
                world.change(("v1", VERSIONED))
            else:
                world.change(("v1", VERSIONED), ("v2", VERSIONED), served=False)
            world.seen.append(world.get())
            world.merge("four", {"metadata": {"labels": {"a": "c"}}})
            world.apply("two", {"a": "z", "b": "y"})
            world.apply("two", {"a": "z", "b": "y"}, force=True)
            world.apply("one", {"b": "y"})
            world.apply("five", {"cards": [{"name": "n", "port": 2}]})
            world.merge("six", {"spec": {"a": "w"}})
            return world.seen
        finally:
            world.close()

    compare(clients, play)


def test_a_version_that_is_new(clients: tuple[Client, Client]) -> None:
    def play(client: Client) -> list[Any]:
        world = World(client, "version-new", ("v1", VERSIONED))
        try:
            world.apply("one", {"a": "x", "cards": [{"name": "n", "port": 1}]})
            world.change(("v1", VERSIONED), ("v3", typed(any=ANYTHING, a=STRING)))
            eventually(lambda: world.get(version="v3")[0] == 200, "the version is served")
            world.apply("one", {"a": "x"}, "v3")
            world.merge("two", {"spec": {"a": "y"}}, "v3")
            world.apply("one", {"a": "z"}, "v1", force=True)
            return world.seen
        finally:
            world.close()

    compare(clients, play)


def test_objects_without_owners(clients: tuple[Client, Client]) -> None:
    """As those from before there were managedFields: nobody owns anything until somebody applies."""

    def play(client: Client) -> list[Any]:
        world = World(client, "without-owners", ("v1", VERSIONED))
        try:
            world.merge("one", {})  # there is nothing yet
            world.apply("one", {"a": "x", "cards": [{"name": "n", "port": 1}]})
            world.merge("one", {"metadata": {"managedFields": [{}]}})
            world.merge("two", {"spec": {"b": "y"}})
            world.merge("two", {"metadata": {"finalizers": []}})
            world.apply("three", {"a": "z"})
            world.apply("three", {"b": "y"})
            world.merge("two", {"spec": {"b": "z"}})
            world.apply("three", {"b": "y"})
            world.apply("three", {"a": "z", "b": "y"}, force=True)
            return world.seen
        finally:
            world.close()

    compare(clients, play)


def test_what_the_controllers_of_definitions_own(clients: tuple[Client, Client]) -> None:
    """Of the status of a definition, and of the marks of its deletion."""

    def play(client: Client) -> list[Any]:
        world = World(client, "controlled", ("v1", VERSIONED))
        name = f"{DEFINITIONS}/bolts.{world.group}"
        seen = []
        try:
            seen.append(asked(client, "GET", name)[1]["metadata"]["managedFields"])
            hold = {"metadata": {"finalizers": ["a.example.com/held"]}, "spec": {"names": {"shortNames": ["bo"]}}}
            asked(client, "PATCH", f"{name}?fieldManager=holder", hold, MERGE_PATCH)
            eventually(
                lambda: asked(client, "GET", name)[1]["status"]["acceptedNames"].get("shortNames"), "the short name is accepted"
            )
            seen.append(asked(client, "GET", name)[1]["metadata"]["managedFields"])
        finally:
            world.close()

        def terminated() -> Any:
            found = asked(client, "GET", name)[1]
            done = [each for each in found["status"]["conditions"] if each["type"] == "Terminating" and each["status"] == "False"]
            # Which is written before the controller's own finalizer is removed.
            return found if done and found["metadata"]["finalizers"] == ["a.example.com/held"] else None

        last = eventually(terminated, "its objects are gone")["metadata"]["managedFields"]
        for entry in last:
            # Owned if the cleanup ended in another second than it began.
            entry["fieldsV1"].get("f:status", {}).get("f:conditions", {}).get(TERMINATING, {}).pop("f:lastTransitionTime", None)
        seen.append(last)
        asked(client, "PATCH", name, {"metadata": {"finalizers": None}}, MERGE_PATCH)
        return comparable([{"managedFields": entries} for entries in seen])  # type: ignore[no-any-return]

    compare(clients, play)


def test_times_are_of_the_last_change(clients: tuple[Client, Client]) -> None:
    """Which entry has which time, by the order of the times: each step is more than a second after the one before."""

    def play(client: Client) -> list[Any]:
        world = World(client, "timed", ("v1", VERSIONED))
        steps: list[Callable[[], None]] = [
            lambda: world.apply("one", {"a": "x"}),
            lambda: world.merge("two", {"spec": {"b": "y"}}),
            lambda: world.apply("one", {"a": "x"}),  # changes nothing
            lambda: world.merge("two", {"spec": {"b": "y"}}),
            lambda: world.apply("three", {"a": "x"}),  # owns what is there
            lambda: world.merge("two", {"spec": {"b": "z"}}),  # of the same fields
            lambda: world.apply("one", {"a": "x", "b": "z"}),
            lambda: world.apply("three", {"a": "w"}, force=True),
        ]
        try:
            found = []
            for step in steps:
                begun = int(time.time())
                eventually(lambda begun=begun: int(time.time()) > begun, "the next second, which times are told in")  # type: ignore[misc]
                step()
                entries = world.get()[1]["metadata"]["managedFields"]
                times = sorted({entry.get("time", "") for entry in entries})
                found.append([(entry["manager"], times.index(entry.get("time", ""))) for entry in entries])
            revisions = [seen[1]["metadata"]["resourceVersion"] for seen in world.seen]
            return [*found, [left == right for left, right in pairwise(revisions)]]
        finally:
            world.close()

    compare(clients, play)
