from __future__ import annotations

import pytest

from aggserver.certificates.issuing import SubjectNames
from aggserver.certificates.keeper import CertificateKeeper
from aggserver.certificates.secret_store import SecretStore
from aggserver.certificates.store import StoreConflictError
from aggserver.cluster import ClusterError
from tests.fakes.cluster import FakeCluster, status

PATH = "/api/v1/namespaces/agg/secrets"
FILES = {"tls.crt": b"certificate", "tls.key": b"\x00key"}


def store(cluster: FakeCluster) -> SecretStore:
    return SecretStore(cluster, "agg", "aggserver-certificates")


async def test_a_round_trip() -> None:
    cluster = FakeCluster()
    mine = store(cluster)
    assert await mine.load() == {}
    await mine.save(FILES)
    assert await store(cluster).load() == FILES
    await mine.save({"tls.crt": b"new"})
    assert await store(cluster).load() == {"tls.crt": b"new"}
    secret = cluster.objects[PATH]["aggserver-certificates"]
    assert secret["type"] == "Opaque"
    assert secret["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "aggserver"}


async def test_labels_of_others_survive() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, {"metadata": {"name": "aggserver-certificates", "labels": {"team": "x"}}, "kind": "Secret"})
    mine = store(cluster)
    assert await mine.load() == {}
    await mine.save(FILES)
    assert cluster.objects[PATH]["aggserver-certificates"]["metadata"]["labels"] == {"team": "x"}


async def test_who_comes_second_is_told() -> None:
    cluster = FakeCluster()
    first, second = store(cluster), store(cluster)
    for one in (first, second):
        await one.load()
    await first.save(FILES)
    with pytest.raises(StoreConflictError):
        await second.save({"tls.crt": b"other"})
    assert await second.load() == FILES
    await first.save({"tls.crt": b"again"})
    with pytest.raises(StoreConflictError):
        await second.save({"tls.crt": b"other"})
    await cluster.remove(PATH, "aggserver-certificates")
    with pytest.raises(StoreConflictError):
        await first.save(FILES)


async def test_two_replicas_end_up_with_one_ca() -> None:
    cluster = FakeCluster()
    names = SubjectNames(("aggserver.agg.svc",))
    first, second = (CertificateKeeper(store(cluster), names, lambda: 1_800_000_000.0) for _ in range(2))
    assert (await first.ensure()).ca_bundle == (await second.ensure()).ca_bundle


async def test_other_refusals_are_the_callers() -> None:
    cluster = FakeCluster()
    cluster.fail("GET", f"{PATH}/aggserver-certificates", status(403, "Forbidden"))
    with pytest.raises(ClusterError, match="403"):
        await store(cluster).load()
    cluster.fail("POST", PATH, status(403, "Forbidden"))
    cluster.fail("POST", PATH, status(404, "NotFound", 'namespaces "agg" not found'))
    mine = store(cluster)
    await mine.load()
    for code in ("403", "404"):
        with pytest.raises(ClusterError, match=code):
            await mine.save(FILES)
    await cluster.put(PATH, {"metadata": {"name": "aggserver-certificates"}, "data": {"a": "%"}})
    with pytest.raises(ClusterError, match="not base64"):
        await store(cluster).load()
