"""When the server's own certificates are renewed, and what stays trusted across a rotation."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from aggserver.certificates.issuing import SubjectNames, issue_client, issue_serving, new_ca
from aggserver.certificates.keeper import CHECK_SECONDS, CertificateKeeper, needs_renewal
from aggserver.certificates.store import FolderStore, StoreConflictError

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = SubjectNames.for_service("aggserver", "extensions", "127.0.0.1", "localhost")


class MemoryStore:
    def __init__(self):
        self.files = {}
        self.saves = 0
        self.before_save = None

    async def load(self):
        return dict(self.files)

    async def save(self, files):
        if self.before_save is not None:
            action, self.before_save = self.before_save, None
            await action()
        self.files = dict(files)
        self.saves += 1


class Clock:
    def __init__(self, now=NOW):
        self.now = now

    def __call__(self):
        return self.now


def load(pem):
    return x509.load_pem_x509_certificate(pem)


def signed_by(bundle, pem):
    return [ca for ca in x509.load_pem_x509_certificates(bundle) if issued(load(pem), ca)]


def issued(certificate, ca):
    try:
        certificate.verify_directly_issued_by(ca)
    except Exception:
        return False
    return True


@pytest.mark.parametrize(
    ("days_later", "due"), [(0, False), (59, False), (61, True), (200, True)], ids=["new", "before", "last third", "expired"]
)
def test_needs_renewal(days_later, due):
    pair = issue_serving(new_ca("my-ca", NOW), ["a"], [], NOW, days=90)
    assert needs_renewal(pair.cert_pem, NOW + days_later * DAY) is due


async def test_kept_between_starts():
    store = MemoryStore()
    first = await CertificateKeeper(store, NAMES, Clock()).ensure()
    again = await CertificateKeeper(store, NAMES, Clock(NOW + 30 * DAY)).ensure()
    assert again == first
    assert store.saves == 1
    assert signed_by(first.ca_bundle, first.serving.cert_pem)


async def test_serving_certificate_is_renewed_under_the_same_ca():
    store, clock = MemoryStore(), Clock()
    keeper = CertificateKeeper(store, NAMES, clock)
    first = await keeper.ensure()
    clock.now += 250 * DAY
    later = await keeper.ensure()
    assert later.serving != first.serving
    assert later.ca_bundle == first.ca_bundle


async def test_other_names_need_another_certificate():
    store = MemoryStore()
    first = await CertificateKeeper(store, NAMES, Clock()).ensure()
    other = await CertificateKeeper(store, SubjectNames.of("other"), Clock()).ensure()
    assert other.ca_bundle == first.ca_bundle
    assert other.serving != first.serving


DAMAGE = {
    "key of another certificate": {"tls.key": new_ca("x", NOW).key_pem},
    "key missing": {"tls.key": None},
    "certificate of another CA": dict(
        zip(
            ("tls.crt", "tls.key"),
            (lambda pair: (pair.cert_pem, pair.key_pem))(issue_serving(new_ca("x", NOW), NAMES.dns, NAMES.ips, NOW)),
            strict=True,
        )
    ),
    "no PEM": {"tls.crt": b"garbage"},
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
async def test_a_damaged_serving_certificate_is_replaced(damage):
    store = MemoryStore()
    first = await CertificateKeeper(store, NAMES, Clock()).ensure()
    for name, content in damage.items():
        if content is None:
            del store.files[name]
        else:
            store.files[name] = content
    again = await CertificateKeeper(store, NAMES, Clock()).ensure()
    assert again.ca_bundle == first.ca_bundle
    assert signed_by(again.ca_bundle, again.serving.cert_pem)


async def test_ca_rotation_overlaps():
    store, clock = MemoryStore(), Clock()
    keeper = CertificateKeeper(store, NAMES, clock)
    first = await keeper.ensure()
    client = issue_client(first.ca, "admin", [], NOW)

    clock.now = NOW + 2500 * DAY  # past two thirds of ten years
    announced = await keeper.ensure()
    assert len(signed_by(announced.ca_bundle, announced.serving.cert_pem)) == 1
    assert announced.ca == first.ca, "the new CA is published before it signs"
    assert len(x509.load_pem_x509_certificates(announced.ca_bundle)) == 2

    clock.now += 2 * DAY
    rotated = await keeper.ensure()
    assert rotated.ca != first.ca
    assert rotated.serving == announced.serving
    assert set(x509.load_pem_x509_certificates(rotated.ca_bundle)) == set(x509.load_pem_x509_certificates(announced.ca_bundle))
    assert signed_by(rotated.ca_bundle, client.cert_pem)

    clock.now += 250 * DAY
    renewed = await keeper.ensure()
    assert signed_by(renewed.ca.cert_pem, renewed.serving.cert_pem)
    assert await keeper.ensure() == renewed

    clock.now = NOW + 3651 * DAY
    assert signed_by((await keeper.ensure()).ca_bundle, first.ca.cert_pem) == []


async def test_an_expired_ca_starts_anew():
    store, clock = MemoryStore(), Clock()
    keeper = CertificateKeeper(store, NAMES, clock)
    first = await keeper.ensure()
    clock.now += 4000 * DAY
    later = await keeper.ensure()
    assert signed_by(later.ca_bundle, first.ca.cert_pem) == []
    assert signed_by(later.ca_bundle, later.serving.cert_pem)


async def test_two_replicas_agree():
    store = MemoryStore()

    async def other_replica():
        await CertificateKeeper(store, NAMES, Clock()).ensure()
        raise StoreConflictError

    store.before_save = other_replica
    mine = await CertificateKeeper(store, NAMES, Clock()).ensure()
    assert mine == await CertificateKeeper(store, NAMES, Clock()).ensure()
    assert store.saves == 1


async def test_a_store_that_never_agrees():
    class Contested(MemoryStore):
        async def save(self, files):
            self.saves += 1
            raise StoreConflictError

    store = Contested()
    with pytest.raises(StoreConflictError):
        await CertificateKeeper(store, NAMES, Clock()).ensure()
    assert store.saves == 5


async def test_follow_reports_changes():
    store, clock = MemoryStore(), Clock()
    keeper = CertificateKeeper(store, NAMES, clock)
    reported = []
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            raise StopFollowing
        clock.now += 200 * DAY

    async def on_change(certificates):
        reported.append(certificates)

    with pytest.raises(StopFollowing):
        await keeper.follow(on_change, sleep)
    assert slept == [CHECK_SECONDS] * 3
    assert reported == [await keeper.ensure()]


class StopFollowing(Exception):
    pass


async def test_keeper_in_a_folder(tmp_path):
    first = await CertificateKeeper(FolderStore(tmp_path / "c"), NAMES, Clock()).ensure()
    assert await CertificateKeeper(FolderStore(tmp_path / "c"), NAMES, Clock()).ensure() == first


async def test_keys_of_earlier_servers_are_kept():
    """Those were PKCS #8."""
    store = MemoryStore()
    keeper = CertificateKeeper(store, NAMES, Clock())
    await keeper.ensure()
    for name in ("ca.key", "tls.key"):
        key = serialization.load_pem_private_key(store.files[name], None)
        store.files[name] = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    kept = dict(store.files)
    admin = issue_client((await keeper.ensure()).ca, "me", [], NOW)
    assert store.files == kept
    assert admin.key_pem.startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
