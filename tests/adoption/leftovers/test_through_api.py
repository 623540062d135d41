"""What is left at a fake of the host that serves it while the definition has the version, and only then."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from aggserver.adoption.leftovers import through_api as leftovers_api
from aggserver.adoption.leftovers.through_api import APILeftovers, close
from aggserver.adoption.leftovers.version import LEFTOVER, MANAGER, VERSION
from aggserver.adoption.records.record import CantGiveBack, Copied, being_removed, digest
from aggserver.adoption.switch.switching import DEFINITIONS
from aggserver.apiextensions.api_service import API_SERVICES
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.meta.json_types import JSONObject
from tests.adoption.leftovers.test_version import crd, webhook
from tests.fakes.cluster import FakeCluster, status

NAME, UID = "crontabs.stable.example.com", "u"
PREFIX = "/stable.example.com/crontabs/"
BASE = f"/apis/stable.example.com/{VERSION}"
SERVICE = f"{VERSION}.stable.example.com"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class LeftHost(FakeCluster):
    """left: the objects' metadata by path. forbidden: paths that admission refuses to change.

    late: how many requests for the version are answered with 404 before it is served.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left: dict[str, JSONObject] = {}
        self.forbidden: set[str] = set()
        self.accepts: set[str] = set()
        self.late = 0
        self.policies: list[str] = []

    async def start(self, *names: str, **metadata: Any) -> None:
        await self.put(DEFINITIONS, {**crd(), "metadata": {**crd()["metadata"], **metadata}})
        for name in names:
            self.add(name)

    def add(self, name: str, **metadata: Any) -> JSONObject:
        """name: NAMESPACE/NAME."""
        namespace, _, short = name.rpartition("/")
        self._revision += 1
        place = f"namespaces/{namespace}/" if namespace else ""
        known = {"namespace": namespace} if namespace else {}
        made = {"name": short, "uid": f"u-{name}", "resourceVersion": str(self._revision), **known, **metadata}
        self.left[f"{BASE}/{place}crontabs/{short}"] = made
        return made

    def copied(self) -> Copied:
        pairs = sorted(
            (PREFIX + (f"{each['namespace']}/" if "namespace" in each else "") + each["name"], int(each["resourceVersion"]))
            for each in self.left.values()
        )
        return Copied(self._revision, len(pairs), digest(pairs), 50)

    @property
    def crd(self) -> JSONObject:
        return self.objects[DEFINITIONS][NAME]

    def versions(self) -> list[str]:
        return [version["name"] for version in self.crd["spec"]["versions"]]

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
        if not path.startswith(BASE):
            return await super().request(method, path, query=query, body=body, timeout=timeout, accept=accept)
        self.calls.append((method, path))
        self._maybe_fail(method, path)
        if VERSION not in self.versions() or self.late:
            self.late = max(0, self.late - 1)
            raise status(404, "NotFound", "the server could not find the requested resource")
        if path == f"{BASE}/crontabs":
            self.accepts.add(accept)
            return self._list(query or {})
        return self._change(method, path, body)

    def _list(self, query: Mapping[str, str]) -> JSONObject:
        paths, start = sorted(self.left), query.get("continue", "")
        page = [path for path in paths if path > start][: int(query["limit"])]
        more = bool(page) and page[-1] != paths[-1]
        items = [{"metadata": copy.deepcopy(self.left[path])} for path in page]
        return {"items": items, "metadata": {"continue": page[-1] if more else ""}}

    def _change(self, method: str, path: str, body: JSONObject) -> JSONObject:
        found = self.left.get(path)
        if found is None:
            raise status(404, "NotFound", "there is no such object")
        if path in self.forbidden:
            raise status(403, "Forbidden", "a policy says no")
        sent = body["preconditions"] if method == "DELETE" else body["metadata"]
        if any(sent[name] != found[name] for name in ("uid", "resourceVersion")):
            raise status(409, "Conflict", "the object has been modified")
        self._revision += 1
        if method == "DELETE":
            self.policies.append(body["propagationPolicy"])
            if found.get("finalizers"):
                self.left[path] = {**found, "deletionTimestamp": "t", "resourceVersion": str(self._revision)}
            else:
                del self.left[path]
            return {"kind": "Status"}
        found |= {"annotations": body["metadata"]["annotations"], "resourceVersion": str(self._revision)}
        found.pop("finalizers", None)
        if "deletionTimestamp" in found:
            del self.left[path]
        return {"metadata": copy.deepcopy(found)}


class Said:
    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []
        self.slept: list[float] = []

    def progress(self, done: int, total: int, _size: int) -> None:
        self.told.append((done, total))

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def leftovers(host: LeftHost, said: Said, *replicas: Cluster) -> APILeftovers:
    async def clusters() -> Sequence[Cluster]:
        return replicas or [host]

    return APILeftovers(host, clusters, NAME, UID, sleep=said.sleep)


async def removed(host: LeftHost, copied: Copied, said: Said) -> int:
    async with leftovers(host, said).opened() as left:
        return await left.remove(await left.check_removable(copied), said.progress)


async def test_what_is_left_is_removed_and_the_definition_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers_api, "PAGE", 2)
    host, said = LeftHost(), Said()
    await host.start("ns/a", "ns/b", "other/c", "whole")
    host.add("ns/held", finalizers=["x/y"])
    host.add("ns/going", finalizers=["x/y"], deletionTimestamp="t")
    before = copy.deepcopy(host.crd["spec"])
    assert await removed(host, host.copied(), said) == 6
    assert (host.left, host.crd["spec"]) == ({}, before)
    assert said.told[-1] == (6, 6)
    assert set(host.policies) == {"Background"}
    assert all("PartialObjectMetadataList" in accept for accept in host.accepts)
    assert leftovers_api.OLD_WATCHES_SECONDS in said.slept, "watches of the time before the move must not see it"


async def behind_our_back(host: LeftHost) -> None:
    host.add("ns/z")


async def changed(host: LeftHost) -> None:
    host.add("ns/a")


async def deleted(host: LeftHost) -> None:
    del host.left[f"{BASE}/namespaces/ns/crontabs/a"]


async def a_conversion_webhook(host: LeftHost) -> None:
    host.crd["spec"]["conversion"] = {"strategy": "Webhook"}


async def an_acting_webhook(host: LeftHost) -> None:
    await host.put(WEBHOOKS, {"metadata": {"name": "policies"}, **webhook(["DELETE"])})


async def another_definition(host: LeftHost) -> None:
    host.crd["metadata"]["uid"] = "other"


async def a_policy(host: LeftHost) -> None:
    host.fail("PATCH", f"{DEFINITIONS}/{NAME}", status(403, "Forbidden", "no more versions"))


REFUSED = {
    "an object more": (behind_our_back, "the cluster's etcd has 3 objects, and 2 were copied"),
    "an object that has changed": (changed, "some have changed since: nothing is removed"),
    "an object less": (deleted, "the cluster's etcd has 1 objects, and 2 were copied"),
    "a conversion webhook": (a_conversion_webhook, "conversion webhook .* needs --host-etcd-servers"),
    "a webhook that acts on deletions": (an_acting_webhook, "side effects would be asked .*: hook; .*--host-etcd-servers"),
    "another definition of the name": (another_definition, "is not in the host any more"),
    "a policy for definitions": (a_policy, "no more versions; .*--host-etcd-servers"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused(name: str) -> None:
    make, why = REFUSED[name]
    host = LeftHost()
    await host.start("ns/a", "ns/b")
    copied = host.copied()
    await make(host)
    before = dict(host.left)
    with pytest.raises(CantGiveBack, match=why):
        await removed(host, copied, Said())
    assert (host.left, host.versions()) == (before, ["v1"])


async def test_a_webhook_that_asks_for_changes_matters_where_objects_have_finalizers() -> None:
    host = LeftHost()
    await host.start("ns/a")
    await host.put(WEBHOOKS, {"metadata": {"name": "policies"}, **webhook(["UPDATE"])})
    assert await removed(host, host.copied(), Said()) == 1
    host.add("ns/b", finalizers=["x/y"])
    with pytest.raises(CantGiveBack, match="side effects"):
        await removed(host, host.copied(), Said())


async def test_what_was_written_after_the_move_stays() -> None:
    host = LeftHost()
    await host.start("ns/a")
    begun = being_removed(host.copied())
    host.add("ns/z")
    with pytest.raises(CantGiveBack, match="ns/z was written by kube-apiserver"):
        await removed(host, begun, Said())
    assert len(host.left) == 2


async def test_what_is_refused_does_not_keep_the_rest() -> None:
    host = LeftHost()
    await host.start("ns/a", "ns/b", "ns/c")
    copied = host.copied()
    host.forbidden = {f"{BASE}/namespaces/ns/crontabs/b"}
    with pytest.raises(CantGiveBack, match=r"2 objects were removed, .*ns/b is refused: .*a policy says no"):
        await removed(host, copied, Said())
    assert (set(host.left), host.versions()) == (host.forbidden, ["v1"])
    host.forbidden = set()
    assert await removed(host, being_removed(copied), Said()) == 1


async def test_it_waits_until_each_kube_apiserver_serves_them() -> None:
    host, second, said = LeftHost(), LeftHost(), Said()
    await host.start("a")
    second.objects, second.late = host.objects, 3
    async with leftovers(host, said, host, second).opened():
        assert ("GET", f"{BASE}/crontabs") in second.calls
        assert not second.late


@pytest.mark.parametrize("error", [status(503, "ServiceUnavailable", retry_after=2), Unreachable("gone")], ids=["503", "away"])
async def test_a_host_that_is_busy_is_asked_again(error: ClusterError | Unreachable) -> None:
    host, said = LeftHost(), Said()
    await host.start("a")
    host.fail("DELETE", f"{BASE}/crontabs/a", error, times=3)
    assert await removed(host, host.copied(), said) == 1


class KilledError(Exception):
    """The process ends here, so that nothing of it runs any more."""


async def test_after_a_crash_at_any_request_it_goes_on() -> None:
    """Each request is the last one of a process once: before it reaches the host, and after."""
    number, finished = 0, False
    while not finished:
        number += 1
        for reached in (False, True):
            host = LeftHost()
            await host.start("ns/a", managedFields=[{"manager": "helm"}])
            host.add("ns/held", finalizers=["x/y"])
            copied = host.copied()
            recorded, finished = await _killed(host, copied, number, reached=reached)
            await removed(host, recorded, Said())
            assert (host.left, host.versions()) == ({}, ["v1"])
    assert number > 10


async def _killed(host: LeftHost, copied: Copied, number: int, *, reached: bool) -> tuple[Copied, bool]:
    """Returns what the journal has, and whether the removal ended before the request of that number."""
    ask, asked = host.request, 0

    async def request(method: str, path: str, **more: Any) -> JSONObject:
        nonlocal asked
        asked += 1
        if asked == number and reached:
            await ask(method, path, **more)
        if asked >= number:
            raise KilledError
        return await ask(method, path, **more)

    host.request = request  # type: ignore[method-assign]
    recorded = copied
    try:
        async with leftovers(host, Said()).opened() as left:
            recorded = await left.check_removable(copied)
            await left.remove(recorded, Said().progress)
    except KilledError:
        return recorded, False
    finally:
        host.request = ask  # type: ignore[method-assign]
    return recorded, True


# --- the end of it ---


async def test_closing_is_repeated_when_somebody_changes_the_definition() -> None:
    host, said = LeftHost(), Said()
    await host.start()
    async with leftovers(host, said).opened():
        host.fail("PATCH", f"{DEFINITIONS}/{NAME}", status(409, "Conflict"), times=2)
    assert host.versions() == ["v1"]
    await close(host, NAME, UID, sleep=said.sleep)
    await close(host, NAME, "another", sleep=said.sleep)
    await host.remove(DEFINITIONS, NAME)
    await close(host, NAME, UID, sleep=said.sleep)


async def test_closing_waits_for_the_host_to_remove_its_api_service(caplog: pytest.LogCaptureFixture) -> None:
    host, said = LeftHost(), Said()
    await host.start()
    async with leftovers(host, said).opened():
        await host.put(API_SERVICES, {"metadata": {"name": SERVICE}})
    assert "is still there" in caplog.text


async def test_the_entry_in_managed_fields_goes_again() -> None:
    host, said = LeftHost(), Said()
    await host.start(managedFields=[{"manager": "helm"}, {"manager": MANAGER}])
    await close(host, NAME, UID, sleep=said.sleep)
    assert host.crd["metadata"]["managedFields"] == [{"manager": "helm"}]


# --- a definition that is being deleted ---


async def test_finalizers_of_what_is_left_do_not_keep_a_deleted_definition() -> None:
    host, said = LeftHost(), Said()
    await host.start("ns/a", finalizers=[leftovers_api.CLEANUP_FINALIZER, "aggserver.io/adopted"])
    host.add("ns/held", finalizers=["x/y"])
    host.add("ns/going", finalizers=["x/y"], deletionTimestamp="t")
    await leftovers(host, said).release_finalizers()
    # The host deletes them itself, as it does what has none.
    assert {each["name"]: each.get("finalizers") for each in host.left.values()} == {"a": None, "held": None}
    assert LEFTOVER in host.left[f"{BASE}/namespaces/ns/crontabs/held"]["annotations"]
    assert host.versions() == ["v1"]


async def test_a_deleted_definition_without_objects_stays_untouched() -> None:
    host = LeftHost()
    await host.start(finalizers=["aggserver.io/adopted"])
    await leftovers(host, Said()).release_finalizers()
    await host.remove(DEFINITIONS, NAME)
    await leftovers(host, Said()).release_finalizers()
    assert not any(method == "PATCH" for method, _ in host.calls)


async def test_finalizers_that_can_not_be_removed_are_told() -> None:
    host = LeftHost()
    await host.start(finalizers=[leftovers_api.CLEANUP_FINALIZER])
    host.add("gone/held", finalizers=["x/y"])
    host.forbidden = set(host.left)
    with pytest.raises(CantGiveBack, match=r"keeps its finalizers: .*gone/held is refused"):
        await leftovers(host, Said()).release_finalizers()
    assert host.versions() == ["v1"]
