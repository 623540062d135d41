"""--tls-sni-cert-key: which certificate has which names, and what can't be used."""

from __future__ import annotations

import pytest

from aggserver.app.named_certificates import NamedCertificates, by_name
from aggserver.certificates.issuing import issue_serving, new_ca
from aggserver.server.tls import TLSConfig, TLSError

NOW = 1_800_000_000.0
CA = new_ca("ca", NOW)
PAIRS = {names: issue_serving(CA, names.split(), [], NOW) for names in ("a.test *.b.test", "a.test", "serving.test")}
FIRST, SECOND = ((PAIRS[names].cert_pem, PAIRS[names].key_pem) for names in ("a.test *.b.test", "a.test"))
CONTENTS = {"0 c": FIRST[0], "0 k": FIRST[1], "1 c": SECOND[0], "1 k": SECOND[1]}

# (names of the first flag, of the second, which pair is for which name)
CASES = {
    "names of the certificates": ((), (), {"a.test": FIRST, "*.b.test": FIRST}),
    "given names alone": (("X.test",), ("y.test",), {"x.test": FIRST, "y.test": SECOND}),
    "given before found": ((), ("a.test",), {"a.test": SECOND, "*.b.test": FIRST}),
    "the earlier flag": (("x.test",), ("x.test",), {"x.test": FIRST}),
}


@pytest.mark.parametrize(("first", "second", "expected"), CASES.values(), ids=CASES)
def test_names(first, second, expected):
    assert by_name([("c", "k", first), ("d", "l", second)], CONTENTS) == expected


@pytest.fixture
def files(tmp_path):
    for name, content in zip(("c", "k"), FIRST, strict=True):
        (tmp_path / name).write_bytes(content)
    return tmp_path


def made(files):
    tls = TLSConfig()
    serving = PAIRS["serving.test"]
    tls.update(cert_pem=serving.cert_pem, key_pem=serving.key_pem)
    return tls, NamedCertificates([(str(files / "c"), str(files / "k"), ("x.test",))], tls)


def test_a_changed_file_is_read_again(files):
    tls, named = made(files)
    assert tls._named == {"x.test": FIRST}
    (files / "c").write_bytes(SECOND[0])
    named._watcher.poll()  # the key does not belong to it yet
    assert tls._named == {"x.test": FIRST}
    (files / "k").write_bytes(SECOND[1])
    named._watcher.poll()
    assert tls._named == {"x.test": SECOND}
    assert len(named.tasks()) == 1


def test_what_can_not_be_used_ends_the_start(files):
    (files / "c").write_bytes(b"no certificate")
    with pytest.raises(TLSError, match=r"--tls-sni-cert-key .*/c,.*/k: serving certificate: there is no certificate in PEM"):
        made(files)
    (files / "c").unlink()
    with pytest.raises(TLSError, match="/c: No such file"):
        made(files)
