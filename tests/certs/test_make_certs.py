"""certs/make-certs.sh: what it makes is accepted by strict verifiers, and what is still right is kept."""

from __future__ import annotations

import os
import shutil
import ssl
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store

SCRIPT = Path(__file__).resolve().parents[2] / "certs" / "make-certs.sh"
FILES = ("ca.crt", "ca.key", "tls.crt", "tls.key")
NAMES = [
    "aggserver.aggserver-system.svc",
    "aggserver.aggserver-system.svc.cluster.local",
    "aggserver.aggserver-system",
    "aggserver",
]

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="make-certs.sh needs openssl, which is not on PATH")


def run(folder, *arguments, status=0):
    """What it printed: standard output, or standard error where it is expected to fail."""
    done = subprocess.run(["sh", SCRIPT, "-o", folder, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout


def contents(folder):
    return {name: (folder / name).read_bytes() for name in FILES}


def certificate(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def names(path):
    san = certificate(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return san.get_values_for_type(x509.DNSName), [str(ip) for ip in san.get_values_for_type(x509.IPAddress)]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A folder as the first run leaves it; copy it to change it."""
    folder = tmp_path_factory.mktemp("first") / "a folder"
    run(folder)
    return folder


@pytest.fixture
def made(first, tmp_path):
    return Path(shutil.copytree(first, tmp_path / "certs"))


def test_can_be_called_by_its_name():
    assert os.access(SCRIPT, os.X_OK)


def test_verifies_strictly_for_the_service(first):
    store = Store([certificate(first / "ca.crt")])
    for name in NAMES[:2]:  # with a dot in it, as RFC 6125 wants them
        verifier = PolicyBuilder().store(store).build_server_verifier(x509.DNSName(name))
        assert len(verifier.verify(certificate(first / "tls.crt"), [])) == 2


def test_loads_into_a_server(first):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(first / "tls.crt", first / "tls.key")


def test_says_what_it_is_for(first):
    serving, ca = certificate(first / "tls.crt"), certificate(first / "ca.crt")
    assert names(first / "tls.crt") == (NAMES, [])
    assert [one.value for one in serving.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == NAMES[:1]
    assert list(serving.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not serving.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    key_of_ca = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert serving.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier == key_of_ca
    assert serving.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest != key_of_ca
    assert serving.not_valid_after_utc - serving.not_valid_before_utc == timedelta(days=365)
    assert ca.not_valid_after_utc - datetime.now(UTC) > timedelta(days=3600)


def test_leaves_four_files_for_the_owner_alone(first):
    assert sorted(path.name for path in first.iterdir()) == sorted(FILES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in first.iterdir()} == {0o600}


def test_keeps_everything_when_run_again(made):
    before = contents(made)
    assert "made" not in run(made)
    assert contents(made) == before


def forget(name):
    return lambda folder: (folder / name).unlink()


def another_key(folder):
    other = folder / "other"
    run(other)
    shutil.copy(other / "tls.key", folder / "tls.key")


def another_ca(folder):
    run(folder / "other")
    for name in ("ca.crt", "ca.key"):
        shutil.copy(folder / "other" / name, folder / name)


ANEW = {
    "certificate gone": (forget("tls.crt"), []),
    "key gone": (forget("tls.key"), []),
    "key of another": (another_key, []),
    "CA of another": (another_ca, []),
    "no certificate at all": (lambda folder: (folder / "tls.crt").write_text("?"), []),
    "more names": (lambda folder: None, ["localhost"]),
    "another namespace": (lambda folder: None, ["-n", "elsewhere"]),
    "less than a third left": (lambda folder: None, ["-d", "1200"]),
}


@pytest.mark.parametrize(("spoil", "arguments"), ANEW.values(), ids=ANEW.keys())
def test_makes_the_certificate_anew(made, spoil, arguments):
    spoil(made)
    before = {name: (made / name).read_bytes() for name in ("ca.crt", "ca.key")}
    assert "made" in run(made, *arguments)
    assert {name: (made / name).read_bytes() for name in before} == before
    certificate(made / "tls.crt").verify_directly_issued_by(certificate(made / "ca.crt"))
    after = contents(made)
    run(made, *arguments)
    assert contents(made) == after


def test_adds_names_and_addresses(made):
    run(made, "-s", "api", "-n", "tools", "localhost", "127.0.0.1", "::1", "*.example.com")
    dns, addresses = names(made / "tls.crt")
    assert dns == ["api.tools.svc", "api.tools.svc.cluster.local", "api.tools", "api", "localhost", "*.example.com"]
    assert addresses == ["127.0.0.1", "::1"]


def test_cuts_a_common_name_that_is_too_long(tmp_path):
    label = "a" * 63
    run(tmp_path, "-s", label, "-n", label)
    assert names(tmp_path / "tls.crt")[0][0] == f"{label}.{label}.svc"


def ca_without_key(folder):
    (folder / "ca.key").unlink()


def ca_soon_over(folder):
    pair = ["-key", folder / "ca.key", "-out", folder / "ca.crt"]
    command = ["openssl", "req", "-new", "-x509", "-days", "30", "-subj", "/CN=soon over", *pair]
    subprocess.run(command, check=True, capture_output=True)


REFUSED = {
    "CA without its key": (ca_without_key, "don't belong together"),
    "CA that ends before the certificate would": (ca_soon_over, "ends within 365 days"),
}


@pytest.mark.parametrize(("spoil", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_never_replaces_a_ca(made, spoil, text):
    spoil(made)
    before = sorted((path.name, path.read_bytes()) for path in made.iterdir())
    assert text in run(made, status=1)
    assert sorted((path.name, path.read_bytes()) for path in made.iterdir()) == before


MISTAKES = {
    "no such option": ["-x"],
    "days are no number": ["-d", "soon"],
    "no days": ["-d", "0"],
    "longer than a CA": ["-d", "3651"],
    "no name of a Service": ["-s", "a,DNS:b"],
    "no name of a namespace": ["-n", "A"],
    "neither name nor address": ["a,DNS:b"],
}


@pytest.mark.parametrize("arguments", MISTAKES.values(), ids=MISTAKES.keys())
def test_says_what_was_mistaken(tmp_path, arguments):
    folder = tmp_path / "certs"
    assert run(folder, *arguments, status=2).splitlines()[-1].startswith("make-certs.sh: ")
    assert not folder.exists()
