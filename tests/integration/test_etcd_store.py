"""The etcd store against real clusters: the contract, with and without TLS, and what happens when members or history go."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aggserver.storage.cacher import Cacher, CacheWatcher
from aggserver.storage.compactor import compact_regularly
from aggserver.storage.etcd import COMPACTION_LOOK, EtcdStorage
from aggserver.storage.interface import Compacted, StorageError, Unavailable
from tests.controlplane.binaries import obtain
from tests.controlplane.etcd import EtcdCluster
from tests.controlplane.pki import Authority, KeyPair
from tests.storage import contract
from tests.storage.caching import Thing, at, make
from tests.storage.suite import PODS, A, B, follow
from tests.waiting import HANG_SECONDS, holding

_folders = itertools.count(1)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with EtcdCluster(obtain(os.environ, print), tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with EtcdCluster(obtain(os.environ, print), tmp_path_factory.mktemp("etcd-tls"), tls=True) as cluster:
        yield cluster


@asynccontextmanager
async def opened(cluster: EtcdCluster, prefix: str = "/registry", *, tls: bool = False) -> AsyncIterator[EtcdStorage]:
    files = {"ca_file": cluster.ca, "cert_file": cluster.client.certificate, "key_file": cluster.client.key} if tls else {}
    store = EtcdStorage(cluster.urls, prefix, **files)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("case", contract.CASES, ids=lambda case: case.__name__)
async def test_contract(case: contract.Case, tls: bool, request: pytest.FixtureRequest) -> None:
    cluster = request.getfixturevalue("secure" if tls else "etcd")
    async with opened(cluster, f"/case-{next(_folders)}", tls=tls) as store:
        await case(store)


async def test_without_its_certificate_nobody_is_let_in(secure: EtcdCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggserver.storage.etcd.START", 0.5)
    store = EtcdStorage(secure.urls, ca_file=secure.ca)
    with pytest.raises(Unavailable, match=secure.urls[0]):
        await store.start()


async def test_renewed_certificates_are_used(tmp_path: Path) -> None:
    """Those that etcd refuses are kept for later, while a connection with the old ones works; a watch sees every write."""
    files = {"ca_file": tmp_path / "ca", "cert_file": tmp_path / "cert", "key_file": tmp_path / "key"}

    def put(pair: KeyPair) -> None:
        files["cert_file"].write_bytes(pair.certificate.read_bytes())
        files["key_file"].write_bytes(pair.key.read_bytes())

    (tmp_path / "new").mkdir()
    new_ca = Authority(tmp_path / "new", "new-ca")
    with EtcdCluster(obtain(os.environ, print), tmp_path, tls=True) as cluster:
        files["ca_file"].write_bytes(cluster.ca.read_bytes())
        put(cluster.client)
        store = EtcdStorage(cluster.urls, **files)
        await store.start()
        assert store._client is not None
        (member,) = store._client._members
        first = member.channel
        recorder, subscription = await follow(store, PODS, await store.revision())

        files["key_file"].write_bytes(b"half written")
        await store._client.renew()
        assert (member.channel, member.renewed) == (first, None)

        put(new_ca.client("client", "aggserver"))  # before etcd trusts its CA
        await store._client.renew()
        assert member.channel is first
        assert member.renewed is not None
        await recorder.reached(await store.create(A, b"1"))

        cluster.trusted = new_ca.pair.certificate
        cluster.kill()
        cluster.start_again()
        async with asyncio.timeout(HANG_SECONDS):
            while member.renewed is not None:
                await store._client.renew()
        assert member.channel is not first
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                with contextlib.suppress(Unavailable):
                    written = await store.create(B, b"2")
                    break
        again, other = await follow(store, PODS, 0)
        await again.reached(written)
        assert [event.key for event in again.seen] == [A, B]

        # With a certificate that etcd takes, the watch stays on its connection, and that is closed at its end.
        second = member.channel
        put(new_ca.client("client-2", "aggserver"))
        await store._client.renew()
        assert member.channel is not second
        assert member._retired == {second}
        await again.reached(await store.update(B, b"3", written))
        assert again.error is None
        subscription.close()
        other.close()
        await store.close()


async def test_an_etcd_that_is_not_there_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggserver.storage.etcd.START", 2.0)
    store = EtcdStorage(["http://127.0.0.1:1", "http://127.0.0.1:2"])
    async with asyncio.timeout(HANG_SECONDS):
        with pytest.raises(Unavailable, match="refused"):
            await store.start()


async def test_a_closed_store_is_unavailable(etcd: EtcdCluster) -> None:
    async with opened(etcd) as store:
        pass
    for refused in (store.get(A), store.revision(), store.create(A, b""), store.list(PODS), store.count(PODS)):
        with pytest.raises(Unavailable):
            await refused


async def test_a_long_list_is_read_in_parts_at_one_revision(etcd: EtcdCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggserver.storage.etcd.PAGE", 7)
    async with opened(etcd, f"/case-{next(_folders)}") as store:
        for number in range(30):
            await store.create(f"{PODS}default/{number:02}", b"")
        whole = await store.list(PODS)
        assert (len(whole.items), whole.more, whole.remaining) == (30, False, 0)
        part = await store.list(PODS, limit=20)
        assert (len(part.items), part.more, part.remaining) == (20, True, 10)
        assert [item.key for item in whole.items][:20] == [item.key for item in part.items]


async def test_it_advances_as_etcd_is_compacted(etcd: EtcdCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it adds to etcd is bounded: it waits for somebody to compact, and gives up where nobody does."""
    prefix = f"/case-{next(_folders)}"
    async with opened(etcd, prefix) as other:
        start = await other.revision()
        kept: list[int] = []
        compacts = True

        async def sleep(seconds: float) -> None:
            if seconds == COMPACTION_LOOK:
                kept.append(await other.revision())
                if compacts:
                    await other.compact(kept[-1])
            else:
                await asyncio.sleep(seconds)

        await other.compact(start)
        for name, value in {"MOST_KEPT": 1000, "FEW": 100, "COMPACTION_PATIENCE": 3 * COMPACTION_LOOK}.items():
            monkeypatch.setattr(f"aggserver.storage.etcd.{name}", value)
        store = EtcdStorage(etcd.urls, prefix, sleep=sleep)
        await store.start()
        try:
            assert start + 2500 <= await store.advance(start + 2500) < start + 2600
            assert len(kept) == 2
            assert start + 1000 <= kept[0] < start + 1100
            assert kept[0] + 1000 <= kept[1] < kept[0] + 1100
            compacts = False
            with pytest.raises(StorageError, match=f"has to advance to {start + 9000}, by a write for each. It was not compa"):
                await store.advance(start + 9000)
            assert await store.revision() < start + 3200
        finally:
            await store.close()


async def test_several_servers_advance_together(etcd: EtcdCluster) -> None:
    prefix = f"/case-{next(_folders)}"
    async with opened(etcd, prefix) as one, opened(etcd, prefix) as two:
        target = await one.revision() + 2000
        assert all(reached >= target for reached in await asyncio.gather(one.advance(target), two.advance(target)))


async def test_of_several_servers_one_compacts(etcd: EtcdCluster) -> None:
    """Two servers take turns as kube-apiserver's do: after each interval one of them compacts, to where it was one before."""
    prefix = f"/case-{next(_folders)}"
    async with opened(etcd, prefix) as one, opened(etcd, prefix) as two:
        claims = {id(one): [], id(two): []}
        revision = await one.create(A, b"0")
        for number in range(4):
            for store in (one, two):
                claims[id(store)].append(await store.claim_compaction(revision))
            revision = await one.update(A, str(number).encode(), revision)
        # The first rounds tell each how often it was done before; then nobody is overtaken who comes first.
        assert [sum(pair) for pair in zip(*claims.values(), strict=True)][1:] == [1, 1, 1]


async def test_the_regular_compaction_keeps_one_interval(etcd: EtcdCluster) -> None:
    async with opened(etcd, f"/case-{next(_folders)}") as store:
        first = await store.create(A, b"1")
        revisions = [first]

        async def sleep(seconds: float) -> None:
            revisions.append(await store.update(A, b"2", revisions[-1]))
            if len(revisions) == 6:
                raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await compact_regularly(store, 1.0, sleep, bounded=False)
        with pytest.raises(Compacted):
            await store.list(PODS, revision=first)
        assert len((await store.list(PODS, revision=revisions[-2])).items) == 1


# Under a cache: nothing is lost, told twice or out of order, whatever happens below.


class World:
    """A cache over a store, a watch on it, and writers whose acknowledged writes are compared with what the watch told."""

    def __init__(self, store: EtcdStorage) -> None:
        self.store = store
        self.cacher: Cacher[Thing] = Cacher(store, PODS, make=make, at=at)
        self.told: list[tuple[str, int]] = []
        self.acknowledged: list[int] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._writing = True
        self._watcher: CacheWatcher[Thing] | None = None

    async def begin(self) -> None:
        await self.cacher.ready()
        self._watcher = await self.cacher.watch(PODS, after=self.cacher.revision)
        self._tasks = [asyncio.create_task(self._listen()), *(asyncio.create_task(self._write(n)) for n in range(4))]

    async def _listen(self) -> None:
        assert self._watcher is not None
        async for batch in self._watcher:
            self.told += [(event.type, event.revision) for event in batch]

    async def _write(self, writer: int) -> None:
        for number in itertools.count():
            if not self._writing:
                return
            try:
                revision = await self.store.create(f"{PODS}w{writer}/{number}", b"x")
                self.acknowledged.append(revision)
                if number % 3 == 0:
                    self.acknowledged.append(await self.store.delete(f"{PODS}w{writer}/{number}", revision))
            except Unavailable:
                continue  # may have happened: the watch then tells of it, and the writer doesn't know

    async def acknowledges(self, more: int) -> None:
        """Waits for so many acknowledged writes from now on."""
        wanted = len(self.acknowledged) + more
        await holding(lambda: len(self.acknowledged) >= wanted, "the writers go on")

    async def end(self) -> None:
        self._writing = False
        async with asyncio.timeout(HANG_SECONDS):
            await asyncio.gather(*self._tasks[1:])
            while True:
                try:
                    revision = await self.cacher.sync()
                    break
                except StorageError:
                    await asyncio.sleep(0)
            page = await self.store.list(PODS)
            await self.cacher.wait_for(page.revision)
            await holding(lambda: not self.acknowledged or self.told[-1][1] >= max(self.acknowledged), "the watch is at the end")
        assert revision >= max(self.acknowledged)
        self._tasks[0].cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        revisions = [revision for _, revision in self.told]
        assert revisions == sorted(set(revisions))
        assert set(self.acknowledged) <= set(revisions)
        assert [item.key for item in self.cacher.list(PODS).items] == [item.key for item in page.items]
        self.cacher.close()


async def test_a_restart_under_a_watch(tmp_path: Path) -> None:
    with EtcdCluster(obtain(os.environ, print), tmp_path) as cluster:
        async with opened(cluster) as store:
            world = World(store)
            await world.begin()
            for _ in range(2):
                await world.acknowledges(50)
                cluster.kill(0)
                cluster.start_again(0)
            await world.acknowledges(50)
            await world.end()


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_a_member_is_lost(how: str, tmp_path: Path) -> None:
    """SIGKILL, and SIGSTOP, which leaves connections that never answer."""
    with EtcdCluster(obtain(os.environ, print), tmp_path, size=3) as cluster:
        async with opened(cluster) as store:
            world = World(store)
            await world.begin()
            await world.acknowledges(50)
            getattr(cluster, how)(0)  # the one that is in use
            await world.acknowledges(50)
            if how == "kill":
                cluster.start_again(0)
            else:
                cluster.resume(0)
            await world.acknowledges(50)
            await world.end()


async def test_a_compaction_under_a_watch_that_was_cut_off(tmp_path: Path) -> None:
    """What was written meanwhile is compacted: the watch ends with an error that makes clients list anew."""
    with EtcdCluster(obtain(os.environ, print), tmp_path) as cluster:
        async with opened(cluster) as store, opened(cluster) as other:
            cacher: Cacher[Thing] = Cacher(store, PODS, make=make, at=at)
            first = await store.create(A, b"1")
            await cacher.sync()
            watcher = await cacher.watch(PODS, after=first)
            assert cacher._subscription is not None
            cacher._subscription.close()
            second = await other.update(A, b"2", first)
            third = await other.update(A, b"3", second)
            await other.delete(A, third)
            fifth = await other.create(B, b"1")
            await other.compact(fifth)
            cacher.lost(Unavailable("cut off"))
            with pytest.raises(Compacted):
                async with asyncio.timeout(HANG_SECONDS):
                    await anext(watcher)
            await cacher.sync()
            assert [item.key for item in cacher.list(PODS).items] == [B]
            cacher.close()


async def test_a_compaction_leaves_a_watch_that_is_up_to_date(etcd: EtcdCluster) -> None:
    async with opened(etcd, f"/case-{next(_folders)}") as store:
        world = World(store)
        await world.begin()
        for _ in range(5):
            await world.acknowledges(20)
            await store.compact(await store.revision())
        await world.end()


async def test_an_etcd_that_was_emptied_is_read_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EtcdCluster(obtain(os.environ, print), tmp_path) as cluster:
        async with opened(cluster) as store:
            cacher: Cacher[Thing] = Cacher(store, PODS, make=make, at=at)
            revision = await store.create(A, b"1")
            for _ in range(20):
                revision = await store.update(A, b"1", revision)
            await cacher.sync()
            assert cacher.get(A) is not None
            cluster.kill(0)
            cluster.start_again(0, empty=True)
            await holding(lambda: cacher.get(A) is None, "the cache has begun anew")
            assert "went back" in caplog.text
            await store.create(B, b"1")
            await cacher.sync()
            assert [item.key for item in cacher.list(PODS).items] == [B]
            cacher.close()


async def test_readiness_knows_of_a_lost_etcd_though_nobody_asks(tmp_path: Path) -> None:
    with EtcdCluster(obtain(os.environ, print), tmp_path) as cluster:
        async with opened(cluster) as store:
            assert store.trouble() is None
            cluster.kill(0)
            await holding(lambda: store.trouble() is not None, "it tells that etcd is gone")
            assert cluster.urls[0] in str(store.trouble())
            cluster.start_again(0)
            await holding(lambda: store.trouble() is None, "etcd is back")


async def test_one_servers_write_is_the_others_read_at_once(etcd: EtcdCluster) -> None:
    prefix = f"/case-{next(_folders)}"
    async with opened(etcd, prefix) as one, opened(etcd, prefix) as two:
        cacher: Cacher[Thing] = Cacher(two, PODS, make=make, at=at)
        await cacher.ready()
        recorder, _ = await follow(two, PODS, await two.revision())
        for number in range(50):
            key = f"{PODS}default/{number}"
            revision = await one.create(key, b"")
            # Writes elsewhere move the revision too: then only a progress request tells how far the cache is.
            await one.create(f"/core/others/{number}", b"")
            assert await cacher.sync() >= revision
            assert cacher.get(key) == Thing(key, revision, "")
        await recorder.reached(revision)
        assert len(recorder.seen) == 50
        cacher.close()
