"""CA bundles, as client-go reads them; `tests/integration/cases_definitions.py` asks kube-apiserver."""

from __future__ import annotations

import base64

import pytest

from aggserver.webhook import ca_bundle

# SEQUENCE { SEQUENCE {}, SEQUENCE {}, BIT STRING }
SHAPED = b"\x30\x08\x30\x00\x30\x00\x03\x02\x00\x00"
NO_BLOCK = "unable to parse bytes as PEM block"
NOTHING = "no valid certificate authority data seen"
MALFORMED = "failed to parse certificate: x509: malformed"


def pem(content: bytes, kind: str = "CERTIFICATE", headers: str = "") -> bytes:
    return f"-----BEGIN {kind}-----\n{headers}{base64.b64encode(content).decode()}\n-----END {kind}-----\n".encode()


@pytest.mark.parametrize(
    ("bundle", "problem"),
    [
        pytest.param(b"", "", id="empty"),
        pytest.param(b" \n", NO_BLOCK, id="space"),
        pytest.param(b"x", NO_BLOCK, id="text"),
        pytest.param(pem(SHAPED), "", id="a certificate"),
        pytest.param(pem(SHAPED).replace(b"\n", b"\r\n"), "", id="lines of Windows"),
        pytest.param(pem(SHAPED).strip(), "", id="no line break at the end"),
        pytest.param(b"text\n" + pem(SHAPED) + b"text", "", id="text around it"),
        pytest.param(pem(b"x") + pem(SHAPED), "", id="one of two"),
        pytest.param(b"text" + pem(SHAPED), NO_BLOCK, id="text on its first line"),
        pytest.param(pem(SHAPED)[:-20], NO_BLOCK, id="without its end"),
        pytest.param(pem(SHAPED)[:-20] + b"\n" + pem(SHAPED), "", id="one without its end before it"),
        pytest.param(pem(SHAPED, "PRIVATE KEY"), NOTHING, id="a key"),
        pytest.param(pem(SHAPED, "PRIVATE KEY") + b"more", NO_BLOCK, id="a key, then text"),
        pytest.param(pem(SHAPED, headers="a: b\n\n"), NOTHING, id="headers"),
        pytest.param(pem(SHAPED, headers="a: b\n"), NOTHING, id="headers without an empty line after them"),
        pytest.param(pem(b"", headers="a: b\n"), NOTHING, id="headers, and an empty line"),
        pytest.param(pem(b"", headers="a: b\n").replace(b"\n\n", b"\n"), NO_BLOCK, id="nothing but headers"),
        pytest.param(b"x-----END A-----\n" * 3 + pem(SHAPED), "", id="ends without a beginning"),
        pytest.param(
            pem(SHAPED, "PRIVATE KEY").replace(b"END PRIVATE", b"END PUBLIC") + pem(SHAPED), "", id="the end of another"
        ),
        pytest.param(pem(b""), f"{MALFORMED} certificate", id="an empty block"),
        pytest.param(pem(b"xx"), f"{MALFORMED} certificate", id="not DER"),
        pytest.param(pem(b"\x30\x80\x00\x00"), f"{MALFORMED} certificate", id="indefinite length"),
        pytest.param(pem(b"\x30\x85\x01\x01\x01\x01\x01"), f"{MALFORMED} certificate", id="a length of five bytes"),
        pytest.param(pem(b"\x30\x81\x10"), f"{MALFORMED} certificate", id="a length that needs no byte of its own"),
        pytest.param(pem(b"\x30\x03\x02\x01\x05"), f"{MALFORMED} tbs certificate", id="another sequence"),
        pytest.param(pem(b"\x30\x02\x30\x00"), f"{MALFORMED} algorithm identifier", id="one part"),
        pytest.param(pem(b"\x30\x04\x30\x00\x30\x00"), f"{MALFORMED} signature", id="two parts"),
        pytest.param(pem(SHAPED + b"x"), "failed to parse certificate: x509: trailing data", id="trailing data"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n", NO_BLOCK, id="not base64"),
    ],
)
def test_problem(bundle: bytes, problem: str) -> None:
    assert ca_bundle.problem(bundle) == problem


def test_each_line_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a block with many headers, and of many blocks."""
    read: list[int] = []
    line = ca_bundle._line

    def counted(bundle: bytes, at: int) -> tuple[bytes, int]:
        found = line(bundle, at)
        read.append(found[1] - at)
        return found

    monkeypatch.setattr(ca_bundle, "_line", counted)
    for bundle in (pem(SHAPED, headers="a: b\n" * 1000), pem(SHAPED, headers="a: b\n", kind="a: b") * 1000):
        read.clear()
        ca_bundle.problem(bundle)
        assert sum(read) <= len(bundle)
