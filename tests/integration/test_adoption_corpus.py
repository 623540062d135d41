"""100 definitions of real projects are adopted together by the empty selector, and released together.

Clients see the same throughout: resources, objects, explanations, and the OpenAPI documents of the cluster. For adopted
group-versions, kube-apiserver has these from this server.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aggserver.adoption.families import ADOPTION, FINALIZER, RELEASE
from aggserver.adoption.switch.switching import DEFINITIONS
from tests import corpus
from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.integration.adopting import CONFIG_MAP, Adopting
from tests.integration.aggregation import NAMESPACE, SERVICE
from tests.integration.raw import Client
from tests.integration.server import eventually, running
from tests.waiting import HANG_SECONDS, KUBECTL_LIMIT

SOME, ALL = 25, 100
# The manifests' policy keeps built-in groups of Kubernetes from this server, and not definitions whose groups have such names.
KUBERNETES = "referencegrants.gateway.networking.k8s.io"
# Nineteen definitions share this group-version, so that they move together.
TOGETHER = "generators.external-secrets.io"
# Its conversion webhook is not there: an object that is stored in one version can't be read in the other.
CONVERTED = "stepactions.tekton.dev"
LATER = "laters.adopted.example.com"
EXPLAINED = (
    "virtualservices.networking.istio.io",
    "servicemonitors.monitoring.coreos.com",
    "stepactions.tekton.dev",
    "passwords.generators.external-secrets.io",
)
# For a machine that is busy with other work: a family takes one to two seconds there.
MOVES_SECONDS = 5 * HANG_SECONDS

GroupVersion = tuple[str, str]


class Seen(NamedTuple):
    """What clients see. v3: by group-version. objects: by path; of those that can't be read, the code and the message."""

    resources: Sequence[str]
    explained: Mapping[str, str]
    v2: Mapping[str, Any]
    v3: Mapping[str, Any]
    objects: Mapping[str, Any]


class World:
    """The definitions of the control plane, and a sample of each kind that has one."""

    def __init__(self, plane: ControlPlane, count: int) -> None:
        self.plane = plane
        self.count = count
        self.definitions = [*_definitions(count), _later()]
        self.names = {crd["metadata"]["name"] for crd in self.definitions}
        self.group_versions = sorted({each for crd in self.definitions for each in _served(crd)})
        self.client = Client(Path(plane.kubeconfig))

    def create(self) -> None:
        """All but the later one."""
        crds = [crd for crd in self.definitions if crd["metadata"]["name"] != LATER]
        self.plane.kubectl("create", "-f", "-", input=_documents(crds))
        samples = self.samples()
        assert len(samples) > self.count // 2
        apply = ("apply", "--server-side", "--validate=false", "-f", "-")
        eventually(
            lambda: self.plane.kubectl(*apply, input=_documents(samples), check=False).returncode == 0, "all are served", 60
        )
        eventually(lambda: self._publishes(crds), "the documents have all kinds")

    def create_later(self) -> None:
        self.plane.kubectl("create", "-f", "-", input=json.dumps(_later()))

    def samples(self) -> list[dict[str, Any]]:
        specs = {(crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd["spec"] for crd in self.definitions}
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for sample in corpus.accepted_samples():
            kind = _kind(sample)
            if kind in specs and kind not in found:
                where = {"namespace": "default"} if specs[kind]["scope"] == "Namespaced" else {}
                found[kind] = {**sample, "metadata": {"name": f"sample-{len(found)}", **where}}
        return list(found.values())

    def seen(self) -> Seen:
        kubectl = self.plane.kubectl
        return Seen(
            sorted(kubectl("api-resources", "--cached=false", "--no-headers", "-o", "wide").stdout.splitlines()),
            {name: kubectl("explain", name, "--recursive").stdout for name in EXPLAINED},
            self._document("/openapi/v2"),
            {each: self._document(f"/openapi/v3/apis/{each}") for each in map("/".join, self.group_versions) if _is_early(each)},
            self._objects(),
        )

    def _objects(self) -> dict[str, Any]:
        """Each sample in every version, without the resourceVersion: that is new after a move."""
        specs = {(crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd["spec"] for crd in self.definitions}
        found = {}
        for sample in self.samples():
            spec = specs[_kind(sample)]
            where = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
            for version in (each["name"] for each in spec["versions"] if each["served"]):
                path = f"/apis/{spec['group']}/{version}/{where}{spec['names']['plural']}/{sample['metadata']['name']}"
                answer = self.client.request("GET", path)
                body = json.loads(answer.body)
                body["metadata"].pop("resourceVersion", None)
                # This server adds which object it was about to convert.
                found[path] = body if answer.status == 200 else (answer.status, body["message"].partition(" (converting ")[0])
        return found

    def status(self) -> dict[str, Any]:
        """What the ConfigMap says, by definition."""
        answer = self.client.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}")
        data = json.loads(answer.body).get("data") or {} if answer.status == 200 else {}
        return {name: json.loads(text) for name, text in data.items()}

    def held(self) -> list[str]:
        """The definitions that have our finalizer: it is the last to go."""
        accept = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
        items = json.loads(self.client.request("GET", DEFINITIONS, accept).body)["items"]
        return [item["metadata"]["name"] for item in items if FINALIZER in (item["metadata"].get("finalizers") or ())]

    def _document(self, path: str) -> Any:
        answer = self.client.request("GET", path, {"accept": "application/json"})
        assert answer.status == 200, (path, answer)
        return json.loads(answer.body)

    def _publishes(self, crds: Sequence[Mapping[str, Any]]) -> bool:
        """Whether both documents have every kind."""
        v2 = self._document("/openapi/v2")["definitions"]
        v3: dict[str, Any] = {}
        for crd in crds:
            for group, version in _served(crd):
                model = ".".join([*reversed(group.split(".")), version, crd["spec"]["names"]["kind"]])
                path = f"/openapi/v3/apis/{group}/{version}"
                if path not in v3:
                    answer = self.client.request("GET", path, {"accept": "application/json"})
                    if answer.status != 200:
                        return False
                    v3[path] = json.loads(answer.body)["components"]["schemas"]
                if model not in v2 or model not in v3[path]:
                    return False
        return True


@pytest.fixture(params=[SOME, pytest.param(ALL, marks=pytest.mark.long)])
def adopting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[World, Adopting]]:
    with ControlPlane(obtain(os.environ, print)) as plane:
        world = World(plane, request.param)
        with world.client:
            yield world, Adopting(plane, tmp_path, *sorted({group for group, _ in world.group_versions}))


def test_all_definitions_move_here_and_back(adopting: tuple[World, Adopting]) -> None:
    world, server = adopting
    plane = world.plane
    world.create()
    before = world.seen()
    with running(server.start(selector="")):
        early = world.names - {LATER}
        _until_adopted(world, early)
        _same(world, before)
        assert KUBERNETES in early
        _leads_here(world, {LATER})
        status = world.status()
        # The families that move together have one name, that of their first definition.
        together = {status[name]["family"] for name in early if name.partition(".")[2] == TOGETHER}
        assert together == {min(name for name in early if name.partition(".")[2] == TOGETHER)}
        assert status[CONVERTED]["phase"] == "Adopted"

        world.create_later()
        _until_adopted(world, early | {LATER})
        _leads_here(world, set())
        plane.kubectl("delete", "crd", LATER, KUBECTL_LIMIT)
        _same(world, before)

        plane.kubectl("annotate", "crd", "--all", f"{ADOPTION}={RELEASE}")
        eventually(lambda: not world.held(), f"all are released: {server.log[-3000:]}", MOVES_SECONDS)
        _leads_here(world, world.names)
        _same(world, before)
    # The server is gone, and nothing needs it.
    _same(world, before)


def _until_adopted(world: World, names: set[str]) -> None:
    def adopted() -> bool:
        return {name for name, each in world.status().items() if each["phase"] == "Adopted"} == names

    eventually(adopted, "all are adopted", MOVES_SECONDS)


def _same(world: World, before: Seen) -> None:
    """Every document is what it was; the aggregator takes a moment to put its documents together anew."""
    different: list[str] = []

    def same() -> bool:
        now = world.seen()
        different[:] = [field for field in Seen._fields if getattr(now, field) != getattr(before, field)]
        return not different

    try:
        eventually(same, "clients see the same")
    except AssertionError as error:
        now = world.seen()
        words = [f"{field}: {_first(getattr(before, field), getattr(now, field))}" for field in different]
        raise AssertionError("\n".join(words)) from error


def _first(before: Any, now: Any, path: str = "") -> str:
    """Where two values differ first."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                return _first(before.get(key), now.get(key), f"{path}/{key}")
    if isinstance(before, list) and isinstance(now, list):
        return f"{path}: without {[x for x in before if x not in now]!s:.500}, with {[x for x in now if x not in before]!s:.500}"
    return f"{path}: {before!s:.500} is now {now!s:.500}"


def _leads_here(world: World, others: set[str]) -> None:
    """The APIServices of all definitions but others lead to this server, those of the others do not."""
    services = {item["metadata"]["name"]: item["spec"] for item in world.plane.get("apiservices")["items"]}
    for crd in world.definitions:
        for group, version in _served(crd):
            found = services.get(f"{version}.{group}", {})
            leads = (found.get("service") or {}).get("name") == SERVICE
            assert leads == (crd["metadata"]["name"] not in others), (crd["metadata"]["name"], found)


def _definitions(count: int) -> list[dict[str, Any]]:
    """The smallest ones, since kube-apiserver takes seconds to serve larger ones, and those that are looked at by name."""
    small = sorted(corpus.definitions(), key=lambda crd: len(json.dumps(crd)))
    free = [crd for crd in small if not crd["spec"]["group"].endswith(".k8s.io")]
    named = {KUBERNETES, CONVERTED, *EXPLAINED} - {crd["metadata"]["name"] for crd in free[:count]}
    return [*free[:count], *(crd for crd in small if crd["metadata"]["name"] in named)]


def _later() -> dict[str, Any]:
    names = {"plural": "laters", "singular": "later", "kind": "Later", "listKind": "LaterList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": LATER},
        "spec": {"group": LATER.partition(".")[2], "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _is_early(group_version: str) -> bool:
    return not group_version.startswith(LATER.partition(".")[2])


def _served(crd: Mapping[str, Any]) -> list[GroupVersion]:
    return [(crd["spec"]["group"], version["name"]) for version in crd["spec"]["versions"] if version["served"]]


def _kind(sample: Mapping[str, Any]) -> tuple[str, str]:
    return sample["apiVersion"].partition("/")[0], sample["kind"]


def _documents(objects: Sequence[Any]) -> str:
    return "\n---\n".join(map(json.dumps, objects))
