"""The TLS settings, their replacement while listening, and the files they come from."""

from __future__ import annotations

import contextlib
import logging
import os
import ssl

import pytest

from aggserver.certificates.issuing import issue_serving, new_ca
from aggserver.server.tls import FileWatcher, TLSConfig, TLSError
from tests.fakes.clock import FakeClock

NOW = 1_800_000_000.0
CA = new_ca("ca", NOW)
PAIR = issue_serving(CA, ["localhost"], ["127.0.0.1"], NOW)
OTHER = issue_serving(CA, ["localhost"], ["127.0.0.1"], NOW)


def config(**settings):
    made = TLSConfig(**settings)
    made.update(cert_pem=PAIR.cert_pem, key_pem=PAIR.key_pem)
    return made


def test_what_is_offered():
    context = config().context.current
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert {cipher["protocol"] for cipher in context.get_ciphers()} == {"TLSv1.2", "TLSv1.3"}


def test_settings():
    context = config(min_version="VersionTLS13").context.current
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    context = config(cipher_suites=["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"]).context.current
    assert [c["name"] for c in context.get_ciphers() if c["protocol"] == "TLSv1.2"] == ["ECDHE-RSA-AES128-GCM-SHA256"]


BAD_SETTINGS = {
    "old version": ({"min_version": "VersionTLS10"}, "unknown or unsafe TLS version 'VersionTLS10'"),
    "unknown suite": (
        {"cipher_suites": ["TLS_RSA_WITH_RC4_128_SHA"]},
        "unknown or unsafe cipher suite 'TLS_RSA_WITH_RC4_128_SHA'",
    ),
    "only TLS 1.3 suites": ({"cipher_suites": ["TLS_AES_128_GCM_SHA256"]}, "only suites of TLS 1.3 were given"),
}


@pytest.mark.parametrize(("settings", "text"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_bad_settings(settings, text):
    with pytest.raises(TLSError, match=text):
        TLSConfig(**settings)


def test_no_context_without_a_certificate():
    with pytest.raises(TLSError, match="no serving certificate yet"):
        _ = TLSConfig().context


def test_client_certificates_are_requested_when_there_is_a_ca():
    made = config()
    listening = made.context
    assert made.update(client_ca_pem=CA.cert_pem)
    assert made.context is listening
    assert listening.current.verify_mode == ssl.CERT_OPTIONAL
    assert len(listening.current.get_ca_certs()) == 1
    assert made.update(client_ca_pem=CA.cert_pem + new_ca("another", NOW).cert_pem)
    assert len(listening.current.get_ca_certs()) == 2
    assert made.update(client_ca_pem=b"")
    assert listening.current.verify_mode == ssl.CERT_NONE


def test_nothing_changes_without_a_change():
    made = config(cipher_suites=())
    current = made.context.current
    assert not made.update(cert_pem=PAIR.cert_pem, key_pem=PAIR.key_pem)
    assert made.context.current is current
    assert made.update(cert_pem=OTHER.cert_pem, key_pem=OTHER.key_pem)
    assert made.context.current is not current


def encrypted_key():
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    key = load_pem_private_key(PAIR.key_pem, password=None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


BAD_UPDATES = {
    "key of another": ({"cert_pem": OTHER.cert_pem}, "serving certificate: KEY_VALUES_MISMATCH"),
    "no PEM": ({"cert_pem": b"garbage"}, "serving certificate: there is no certificate in PEM"),
    "no PEM of a key": ({"key_pem": b"garbage"}, "serving certificate: there is no private key in PEM"),
    "empty": ({"key_pem": b"\n"}, "the serving certificate or its key is empty"),
    "encrypted key": ({"key_pem": encrypted_key()}, "serving certificate: the private key is encrypted"),
    "no CA in the bundle": ({"client_ca_pem": b"garbage"}, "client CA bundle: data does not contain any valid RSA or ECDSA cert"),
}


@pytest.mark.parametrize(("update", "text"), BAD_UPDATES.values(), ids=BAD_UPDATES)
def test_a_bad_update_keeps_the_old(update, text, caplog):
    made = config()
    current = made.context.current
    with caplog.at_level(logging.INFO):
        assert not made.update(**update)
    assert made.context.current is current
    (record,) = caplog.records
    assert record.getMessage().startswith(f"keeping the TLS certificates in use: {text}")
    assert record.exc_info is None
    with pytest.raises(TLSError, match=text):
        TLSConfig().update(**{"cert_pem": PAIR.cert_pem, "key_pem": PAIR.key_pem, **update})


def test_a_skipped_ca_is_logged(caplog):
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    assert config().update(client_ca_pem=broken + CA.cert_pem)
    assert "client CA left out: certificate 1 of the bundle" in caplog.text


class Seen:
    """Two watched files, and what was reported of them."""

    def __init__(self, folder):
        self.cert, self.key = folder / "tls.crt", folder / "tls.key"
        self.reports = []
        self.watcher = FileWatcher({"cert": self.cert, "key": self.key}, self.reports.append)

    def poll(self):
        self.reports.clear()
        self.watcher.poll()
        return list(self.reports)


def write(path, content):
    """As an editor or kubelet does: another file of the same name."""
    new = path.with_name(f".{path.name}")
    new.write_bytes(content)
    new.replace(path)


def test_files_change(tmp_path):
    seen = Seen(tmp_path)
    write(seen.cert, b"1")
    write(seen.key, b"2")
    assert seen.watcher.read() == {"cert": b"1", "key": b"2"}
    assert seen.poll() == []
    write(seen.cert, b"3")
    assert seen.poll() == [{"cert": b"3", "key": b"2"}]
    assert seen.poll() == []


def test_a_mounted_secret_is_swapped_above_the_files(tmp_path):
    for name, content in (("..1", b"old"), ("..2", b"new")):
        (tmp_path / name).mkdir()
        for file in ("tls.crt", "tls.key"):
            (tmp_path / name / file).write_bytes(content)
            os.utime(tmp_path / name / file, (NOW, NOW))
    (tmp_path / "..data").symlink_to("..1")
    for file in ("tls.crt", "tls.key"):
        (tmp_path / file).symlink_to(f"..data/{file}")
    seen = Seen(tmp_path)
    assert seen.watcher.read() == {"cert": b"old", "key": b"old"}
    (tmp_path / "..tmp").symlink_to("..2")
    (tmp_path / "..tmp").replace(tmp_path / "..data")
    assert seen.poll() == [{"cert": b"new", "key": b"new"}]


def test_a_file_that_is_gone_is_logged_once(tmp_path, caplog):
    seen = Seen(tmp_path)
    write(seen.cert, b"1")
    with pytest.raises(TLSError, match=r"tls\.key: No such file or directory"):
        seen.watcher.read()
    write(seen.key, b"2")
    assert seen.poll() == [{"cert": b"1", "key": b"2"}]
    seen.cert.unlink()
    assert seen.poll() == []
    assert seen.poll() == []
    assert [record.getMessage() for record in caplog.records] == [
        f"keeping the certificates in use: {seen.cert}: No such file or directory"
    ]
    write(seen.cert, b"1")
    assert seen.poll() == [{"cert": b"1", "key": b"2"}]


async def test_run_polls_at_the_interval(tmp_path):
    clock = FakeClock()
    seen = Seen(tmp_path)
    write(seen.cert, b"1")
    write(seen.key, b"2")
    seen.watcher.read()

    async def sleep(seconds):
        if len(clock.slept) == 2:
            raise StopIteration_
        await clock.sleep(seconds)
        write(seen.cert, b"%d" % len(clock.slept))

    with pytest.raises(StopIteration_):
        await seen.watcher.run(sleep, 1.5)
    assert clock.slept == [1.5, 1.5]
    assert [report["cert"] for report in seen.reports] == [b"1", b"2"]


class StopIteration_(Exception):  # noqa: N801
    pass


NAMED = {
    "no name": (None, "serving"),
    "unknown": ("other.test", "serving"),
    "exact": ("one.test", "one"),
    "capitals": ("ONE.test", "one"),
    "wildcard": ("a.two.test", "two"),
    "exact before wildcard": ("b.two.test", "one"),
    "a wildcard is for one label": ("a.b.two.test", "serving"),
    "not the domain itself": ("two.test", "serving"),
}


@pytest.mark.parametrize(("name", "expected"), NAMED.values(), ids=NAMED)
def test_a_certificate_for_each_name(name, expected):
    pairs = {each: issue_serving(CA, [f"{each}.example"], [], NOW) for each in ("serving", "one", "two")}
    pem = {each: (pair.cert_pem, pair.key_pem) for each, pair in pairs.items()}
    tls = TLSConfig()
    tls.update(cert_pem=pem["serving"][0], key_pem=pem["serving"][1], client_ca_pem=CA.cert_pem)
    tls.update(named={"one.test": pem["one"], "b.two.test": pem["one"], "*.two.test": pem["two"]})
    assert ssl.DER_cert_to_PEM_cert(_served(tls, name)).encode() == _first(pem[expected][0])
    tls.update(named={})
    assert ssl.DER_cert_to_PEM_cert(_served(tls, name)).encode() == _first(pem["serving"][0])


def _first(pem):
    end = b"-----END CERTIFICATE-----\n"
    return pem.partition(end)[0] + end


def _served(tls, name):
    """The certificate that a client that asks for the name gets, without a network."""
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=name)
    answering = tls.context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (asking, answering):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert answering.context.verify_mode == ssl.CERT_OPTIONAL
    return asking.getpeercert(binary_form=True)
