"""Storage that is full, and objects that are not acceptable, while definitions of a real cluster are adopted and released.

The cluster's etcd is made full by its own alarm, the server's volume by a limit on the size of its files. In each case nothing is
lost, the status or the server's answer says what is wrong, other families go on, and the move goes on by itself afterwards.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import resource
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aggserver.adoption.families import FINALIZER
from aggserver.adoption.give_back import from_backup
from aggserver.adoption.give_back.from_backup import release_from_backup
from aggserver.adoption.give_back.to_etcd import objects_prefix
from aggserver.adoption.records.journal import Journal
from aggserver.adoption.records.record import Copied, Phase, Record, Refused, digest
from aggserver.adoption.switch.api_services import OurService, to_us
from aggserver.adoption.switch.guard import CONFIGURATIONS, configuration
from aggserver.adoption.switch.switching import DEFINITIONS
from aggserver.apiextensions.api_service import API_SERVICES, Service
from aggserver.cluster.client import ClusterClient, connect
from aggserver.meta import codec
from aggserver.storage.etcd import EtcdStorage
from aggserver.storage.interface import KeyValue, Storage, Unavailable
from aggserver.storage.sqlite import SQLiteStorage
from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.fakes.bad_webhooks import review_of
from tests.fakes.webhook import CA, RunningWebhook
from tests.integration.adopting import LABEL, Adopting, adopt
from tests.integration.server import Aggregated, AggServer, eventually, running
from tests.waiting import HANG_SECONDS, KUBECTL_LIMIT

DOMAIN = "full.example.com"
NO_SPACE = "etcdserver: mvcc: database space exceeded"
MOST_BYTES = 64 * 1024


class Family:
    """A definition with a group of its own, and its objects in namespace default."""

    def __init__(self, plane: ControlPlane, word: str, schema: Mapping[str, Any] | None = None) -> None:
        self.plane = plane
        self.word = word
        self.group = f"{word}.{DOMAIN}"
        self.name = f"things.{self.group}"
        self.prefix = f"/{self.group}/things/default/"
        self.define(schema or {})
        plane.kubectl("wait", "--for=condition=Established", f"crd/{self.name}", KUBECTL_LIMIT)

    def define(self, schema: Mapping[str, Any]) -> None:
        """schema: of the objects' spec; {} for one that takes everything."""
        spec = {"type": "object", **(schema or {"x-kubernetes-preserve-unknown-fields": True})}
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        }
        kind = self.word.title()
        names = {"plural": "things", "singular": "thing", "kind": kind, "listKind": f"{kind}List"}
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {"group": self.group, "scope": "Namespaced", "names": names, "versions": [version]},
        }
        self.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=json.dumps(definition))

    def object(self, name: str, **spec: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "default"}
        return {"apiVersion": f"{self.group}/v1", "kind": self.word.title(), "metadata": metadata, "spec": spec}

    def create(self, name: str, **spec: Any) -> None:
        self.plane.kubectl("create", "-f", "-", input=json.dumps(self.object(name, **spec)))

    def patch(self, name: str, *, user: Path | None = None, **spec: Any) -> subprocess.CompletedProcess[str]:
        body = json.dumps({"spec": spec})
        return self.plane.kubectl("patch", self.name, name, "--type=merge", "-p", body, check=False, user=user)

    def objects(self) -> dict[str, Any]:
        """By name, without the resourceVersion: that is new after a move."""
        found = self.plane.get(self.name, "-n", "default", "--show-managed-fields")["items"]
        for each in found:
            del each["metadata"]["resourceVersion"]
        return {each["metadata"]["name"]: each for each in found}

    def is_ours(self) -> bool:
        return "service" in self.plane.get("apiservice", f"v1.{self.group}")["spec"]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(obtain(os.environ, print)) as plane:
        yield plane


@pytest.fixture(scope="module")
def adopting(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Adopting:
    words = ("well", "tight", "large", "damaged", "later", "late", "big", "strict", "plain")
    return Adopting(plane, tmp_path_factory.mktemp("adopting"), *(f"{word}.{DOMAIN}" for word in words))


def alarm(plane: ControlPlane, action: str) -> None:
    """ACTIVATE or DEACTIVATE the alarm of an etcd whose quota is reached: it takes deletions only."""
    body = json.dumps({"action": action, "memberID": "0", "alarm": "NOSPACE"}).encode()
    request = urllib.request.Request(f"{plane.etcd}/v3/maintenance/alarm", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


@contextmanager
def full_etcd(plane: ControlPlane, server: AggServer, *commands: list[str]) -> Iterator[None]:
    """The commands are the last that etcd takes. The server learns of them when etcd is full, and still holds its Lease."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        for command in commands:
            plane.kubectl(*command)
        alarm(plane, "ACTIVATE")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    try:
        yield
    finally:
        alarm(plane, "DEACTIVATE")


@contextmanager
def full_volume(server: AggServer, store: Path) -> Iterator[None]:
    """The log of the server's store can't grow by more than a mebibyte. Less has room in what the file has already."""
    soft, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    log = store.with_name(f"{store.name}-wal").stat().st_size
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (log + (1 << 20), hard))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (soft, hard))


def in_etcd(plane: ControlPlane, key: str, value: bytes | None = None, *, delete: bool = False) -> KeyValue | None:
    """What the cluster's etcd has at a key. value: to be created there first."""

    async def look() -> KeyValue | None:
        etcd = EtcdStorage([plane.etcd])
        await etcd.start()
        try:
            if value is not None:
                await etcd.create(key, value)
            found = await etcd.get(key)
            if delete and found is not None:
                await etcd.delete(key, found.revision)
            return found
        finally:
            await etcd.close()

    return asyncio.run(look())


def reason(adopting: Adopting, family: Family) -> str:
    return str(adopting.status().get(family.name, {}).get("reason", ""))


def is_adopted(adopting: Adopting, *families: Family) -> bool:
    status = adopting.status()
    return all(status.get(family.name, {}).get("phase") == "Adopted" for family in families)


def with_host_etcd(adopting: Adopting) -> Aggregated:
    return adopting.start("--host-etcd-servers", adopting.plane.etcd, "--max-object-bytes", str(MOST_BYTES))


# What is stored violates it: a required field is missing, a value and a rule do not allow it, and there is a field too many.
TIGHT: dict[str, Any] = {
    "required": ["color"],
    "properties": {"color": {"type": "string"}, "size": {"type": "integer", "maximum": 10}, "replicas": {"type": "integer"}},
    "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size < 5", "message": "size must be small"}],
}


def changes(family: Family, name: str) -> list[tuple[int, str]]:
    """Updates of an object that its schema would not let anybody create: how they end, and what is said."""
    answers = [
        family.plane.kubectl("label", family.name, name, "a=b", check=False),  # what is wrong has not changed
        family.patch(name, replicas=2),  # in the same object as the required field, and under the rule
        family.patch(name, size=3, color="red"),
        family.patch(name, size=100),
    ]
    return [(each.returncode, each.stderr.replace(name, "NAME")) for each in answers]


def test_objects_that_are_not_acceptable_and_an_etcd_that_is_full(plane: ControlPlane, adopting: Adopting) -> None:
    well, tight, large, damaged, later, late = (
        Family(plane, word) for word in ("well", "tight", "large", "damaged", "later", "late")
    )
    for family in (well, later, damaged, large):
        family.create("a", mark=1)
    for name in ("old", "model"):
        tight.create(name, size=100, unknown={"x": [1, 2]})
    large.create("too-large", text="x" * MOST_BYTES)
    tight.define(TIGHT)
    eventually(lambda: tight.patch("model", replicas="x").returncode, "the new schema is in force")
    expected = changes(tight, "model")
    assert [code for code, _ in expected] == [0, 1, 0, 1]
    raw = in_etcd(plane, f"{tight.prefix}old")
    before = {family.word: family.objects() for family in (well, tight, later)}
    in_etcd(plane, f"{damaged.prefix}broken", b'{"apiVersion":')
    with running(server := with_host_etcd(adopting)):
        for family in (well, tight, large, damaged):
            adopting.label(family.name)
        eventually(lambda: is_adopted(adopting, well, tight), f"they are adopted: {adopting.log[-3000:]}")
        said = re.compile(rf"{large.prefix}too-large has \d+ bytes: --max-object-bytes is {MOST_BYTES}")
        eventually(lambda: said.fullmatch(reason(adopting, large)), "the large object is named")
        wrong = f"/registry{damaged.prefix}broken can't be read: it is not a custom resource in JSON"
        eventually(lambda: reason(adopting, damaged) == wrong, "the damaged object is named")
        assert not large.is_ours()
        assert not damaged.is_ours()

        # Adopted as it is, and changed by the same rules as at kube-apiserver.
        assert {family.word: family.objects() for family in (well, tight)} == {word: before[word] for word in ("well", "tight")}
        assert raw is not None
        assert changes(tight, "old") == expected

        # What was in the way is gone.
        large.patch("too-large", text="x")
        in_etcd(plane, f"{damaged.prefix}broken", delete=True)
        _late_writes(plane, adopting, late)
        eventually(lambda: is_adopted(adopting, large, damaged), f"they are adopted: {adopting.log[-3000:]}")

        # The cluster's etcd is full while one family is to come and another to go back.
        well.patch("a", mark=2)
        well.create("new", mark=1)
        during = well.objects()
        label = ["label", "crd", later.name, f"{LABEL}=true"]
        unlabel = ["label", "crd", well.name, f"{LABEL}-"]
        with full_etcd(plane, server, label, unlabel):
            said = f"the finalizer aggserver.io/adopted can't be put on {later.name}: 500: {NO_SPACE}"
            eventually(lambda: said in adopting.log, "the family that comes waits")
            said = f"{well.name}: Adopted: etcd {plane.etcd}: {NO_SPACE}: compact and defragment it, then disarm its alarm"
            eventually(lambda: said in adopting.log, "the family that goes stays adopted")
            assert later.objects() == before["later"]
            assert well.is_ours()
            # Adopted objects are written here, whatever the cluster's etcd says.
            done = eventually(lambda: _succeeded(well.patch("new", mark=3)), "adopted objects are written")
            assert done.returncode == 0
        during["new"] = well.objects()["new"]
        eventually(lambda: not well.is_ours(), f"the family is back: {adopting.log[-3000:]}")
        eventually(lambda: adopting.phase(well.name) == "", "its release has ended")
        assert well.objects() == during
        eventually(lambda: is_adopted(adopting, later), f"the other one is adopted: {adopting.log[-3000:]}")

        # Given back exactly: also what kube-apiserver would not let anybody create.
        here = tight.objects()
        adopting.release(tight.name)
        assert tight.objects() == here
        assert not tight.is_ours()


def _succeeded(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str] | None:
    return None if done.returncode else done


def _late_writes(plane: ControlPlane, adopting: Adopting, late: Family) -> None:
    """Two writes pass the host's admission before the guard is on, and reach its etcd when the family is adopted."""
    held, go = threading.Semaphore(0), threading.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        review = await review_of(request)
        if review["request"]["object"]["spec"].get("mark") == "late":
            held.release()
            await asyncio.to_thread(go.wait, HANG_SECONDS)
        return web.json_response({**review, "response": {"uid": review["request"]["uid"], "allowed": True}})

    for name in ("kept", "changed"):
        late.create(name, mark="early")
    with RunningWebhook(answer) as webhook:
        plane.kubectl("apply", "-f", "-", input=json.dumps(_slow(late, webhook)))
        try:
            eventually(lambda: _is_asked(late, webhook), "the webhook is asked")
            writes = [threading.Thread(target=late.patch, args=(name,), kwargs={"mark": "late"}) for name in ("kept", "changed")]
            for each in writes:
                each.start()
            for _ in writes:
                assert held.acquire(timeout=HANG_SECONDS)
            adopting.adopt(late.name)
            assert late.patch("changed", mark="here").returncode == 0
            go.set()
            for each in writes:
                each.join(HANG_SECONDS)
            eventually(lambda: late.objects()["kept"]["spec"]["mark"] == "late", "the late write is here")
            said = re.compile(
                rf"{late.name}: a write of {late.prefix}changed at the host's revision \d+ came late: what was written here"
            )
            eventually(lambda: said.search(adopting.log), "the other one is told")
            assert late.objects()["changed"]["spec"]["mark"] == "here"
            told = eventually(lambda: adopting.status()[late.name].get("told"), "the status tells it, too")
            assert "came late" in told["message"]
        finally:
            go.set()
            plane.kubectl("delete", "validatingwebhookconfiguration", late.name)


def _is_asked(late: Family, webhook: RunningWebhook) -> bool:
    late.patch("kept", seen="x" * len(webhook.server.seen))
    return bool(webhook.server.seen)


def _slow(family: Family, webhook: RunningWebhook) -> dict[str, Any]:
    client = {"url": f"https://127.0.0.1:{webhook.server.port}/", "caBundle": base64.b64encode(CA.cert_pem).decode()}
    rule = {"apiGroups": [family.group], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["*"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": family.name},
        "webhooks": [
            {
                "name": f"slow.{family.group}",
                "clientConfig": client,
                "rules": [rule],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": 30,
            }
        ],
    }


async def _fill(plane: ControlPlane, family: Family, count: int, size: int) -> None:
    cluster = await connect(str(plane.kubeconfig), "test")
    path = f"/apis/{family.group}/v1/namespaces/default/things"
    limit = asyncio.Semaphore(16)

    async def create(number: int) -> None:
        async with limit:
            await cluster.request("POST", path, body=family.object(f"big-{number:03}", text="x" * size))

    try:
        await asyncio.gather(*map(create, range(count)))
    finally:
        await cluster.close()


def _release(plane: ControlPlane, family: Family) -> subprocess.CompletedProcess[str]:
    return adopt(plane, "release", family.name, "--through-api", KUBECTL_LIMIT)


@pytest.mark.long
def test_what_the_host_refuses_and_a_volume_that_is_full(plane: ControlPlane, adopting: Adopting) -> None:
    """With the host's API only."""
    strict, plain, big = (Family(plane, word) for word in ("strict", "plain", "big"))
    for family in (strict, plain):
        family.create("old", size=1)
    asyncio.run(_fill(plane, big, 100, 50_000))
    with running(server := adopting.start(data="api")):
        for family in (strict, plain):
            adopting.label(family.name)
        eventually(lambda: is_adopted(adopting, strict, plain), f"they are adopted: {adopting.log[-3000:]}")
        # The server's volume is full while a family is copied to it.
        plain.patch("old", size=2)
        with full_volume(server, adopting.store):
            adopting.label(big.name)
            full = "can't write to the store: disk I/O error: the disk may be full"
            eventually(lambda: full in reason(adopting, big), f"it is told: {adopting.log[-3000:]}")
            assert any(line.endswith(f"{big.name}: Copying") for line in adopting.log.splitlines())
            assert not big.is_ours()
            assert big.patch("big-000", text="changed").returncode == 0, "its clients go on at the host"
            assert plain.objects()["old"]["spec"]["size"] == 2, "what is adopted is read"
        eventually(lambda: is_adopted(adopting, big), f"it is adopted: {adopting.log[-3000:]}")
        copied = big.objects()
        assert (len(copied), copied["big-000"]["spec"]["text"]) == (100, "changed")

        # What was created here would not be created by the host any more.
        plane.kubectl("label", strict.name, "old", "a=b")
        strict.create("new", size=3)
        strict.define(TIGHT)
        eventually(lambda: strict.patch("new", size="x").returncode, "the new schema is in force here")
        here, there = strict.objects(), in_etcd(plane, f"{strict.prefix}old")
        done = _release(plane, strict)
        assert done.returncode == 1
        assert (
            f"the host does not take all objects, so nothing was written: {strict.prefix}new is refused: 422 Invalid"
            in done.stdout
        )
        assert "spec.color: Required value" in done.stdout
        assert "it stays adopted, and nothing is lost" in done.stderr
        assert "things/default/old" not in done.stdout, "it may stay as wrong as it was"
        assert strict.is_ours()
        assert strict.objects() == here
        assert in_etcd(plane, f"{strict.prefix}old") == there
        assert in_etcd(plane, f"{strict.prefix}new") is None
        assert strict.patch("new", color="red").returncode == 0
        done = _release(plane, strict)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not strict.is_ours()
        assert {name: each["spec"] for name, each in strict.objects().items()} == {
            "old": {"size": 1},
            "new": {"size": 3, "color": "red"},
        }

        # The cluster's etcd is full while another is given back.
        during = plain.objects()
        through = ["annotate", "crd", plain.name, "aggserver.io/adoption=release", "aggserver.io/release-through-api=true"]
        with full_etcd(plane, server, through):
            said = f"{plain.name}: Adopted: 500: {NO_SPACE}"
            eventually(lambda: said in adopting.log, "the release stops before clients are led away")
            assert plain.is_ours()
            assert plain.objects() == during
        eventually(lambda: adopting.phase(plain.name) == "Waiting", f"it is given back: {adopting.log[-3000:]}")
        assert not plain.is_ours()
        assert plain.objects()["old"]["spec"] == {"size": 2}


async def test_a_backup_goes_onto_a_full_etcd_and_past_refusals_when_it_is_repeated(
    plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is lost: its APIServices and its guard lead nowhere."""
    monkeypatch.setattr(from_backup, "MARGIN", 500)  # of writes to etcd
    exact, through = [await asyncio.to_thread(Family, plane, word) for word in ("exact", "through")]
    for family in (exact, through):
        await asyncio.to_thread(family.create, "old", size=1)
    cluster, etcd, own = await connect(str(plane.kubeconfig), "test"), EtcdStorage([plane.etcd]), SQLiteStorage(tmp_path / "db")
    await etcd.start()
    await own.start()
    try:
        for family in (exact, through):
            await _lost(cluster, etcd, own, family)
        said: list[str] = []

        async def release(family: Family, host: EtcdStorage | None) -> None:
            names = [family.name]
            await release_from_backup(own, cluster, host, said.append, definitions=names, through_api=host is None)

        alarm(plane, "ACTIVATE")
        try:
            with pytest.raises(Unavailable, match=NO_SPACE):
                await release(exact, etcd)
            assert await asyncio.to_thread(exact.is_ours)
        finally:
            alarm(plane, "DEACTIVATE")
        await release(exact, etcd)
        assert await asyncio.to_thread(_specs, exact) == {"old": {"size": 2}, "new": {"size": 3}}

        await asyncio.to_thread(through.define, TIGHT)
        with pytest.raises(Refused, match=f"{through.prefix}new is refused: 422 Invalid"):
            await release(through, None)
        somebody = plane.user("somebody", ("system:masters",))
        done = await asyncio.to_thread(through.patch, "old", user=somebody, size=4, color="red")
        assert 'failed calling webhook "writes.guard.aggserver.io"' in done.stderr, "others write when all is back"
        await asyncio.to_thread(through.define, {})
        await release(through, None)
        assert await asyncio.to_thread(_specs, through) == {"old": {"size": 2}, "new": {"size": 3}}
        for family in (exact, through):
            found = await cluster.request("GET", f"{DEFINITIONS}/{family.name}")
            assert "finalizers" not in found["metadata"]
            await asyncio.to_thread(eventually, lambda family=family: _succeeded(family.patch("old", size=4)), "clients write")
    finally:
        await own.close()
        await etcd.close()
        await cluster.close()


async def _lost(cluster: ClusterClient, etcd: Storage, own: Storage, family: Family) -> None:
    """Adopt a family into a store without a server, and write there: `old` is changed, `new` is created."""
    prefix = objects_prefix(family.name)
    page = await etcd.list(prefix)
    for item in page.items:
        await own.create(item.key, item.value.rstrip())
    pairs = [(item.key, item.revision) for item in page.items]
    copied = Copied(page.revision, len(pairs), digest(pairs), await own.revision())
    crd = await cluster.request("GET", f"{DEFINITIONS}/{family.name}")
    group_version = (family.group, "v1")
    record = Record(family.name, {family.name: crd["metadata"]["uid"]}, [group_version], Phase.ADOPTED, shared=False, since="")
    await Journal(own).write(replace(record, copied={family.name: copied}))
    found = await own.get(f"{family.prefix}old")
    assert found is not None
    changed = codec.decode_stored(found.value)
    changed["spec"] = {"size": 2}
    await own.update(found.key, codec.encode_json(changed), found.revision)
    metadata = {**changed["metadata"], "name": "new", "uid": "01234567-89ab-4cde-8f01-23456789abcd"}
    await own.create(f"{family.prefix}new", codec.encode_json({**changed, "metadata": metadata, "spec": {"size": 3}}))

    service = Service("default", f"lost-{family.word}", 443)
    await cluster.request("PATCH", f"{DEFINITIONS}/{family.name}", body={"metadata": {"finalizers": [FINALIZER]}})
    guarded = configuration([(family.group, "things")], "g", service, CA.cert_pem, "system:serviceaccount:default:lost")
    await cluster.request("POST", CONFIGURATIONS, body=guarded)
    api_service = await cluster.request("GET", f"{API_SERVICES}/v1.{family.group}")
    ours = to_us(api_service, group_version, OurService(service, "installation", CA.cert_pem))
    await cluster.request("PUT", f"{API_SERVICES}/v1.{family.group}", body=ours)


def _specs(family: Family) -> dict[str, Any]:
    eventually(lambda: not family.plane.kubectl("get", family.name, check=False).returncode, "it is served again")
    return {name: each["spec"] for name, each in family.objects().items()}
