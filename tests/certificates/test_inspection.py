"""What is read from certificates of others."""

from __future__ import annotations

import pytest

from aggserver.certificates.inspection import in_bundle, is_signed_by
from aggserver.certificates.issuing import issue_serving, new_ca

NOW = 1_700_000_000.0
CA, OTHER = new_ca("ca", NOW), new_ca("other", NOW)
SERVING = issue_serving(CA, ["a.b.svc", "*.example.com"], ["10.0.0.1"], NOW, days=1)


def test_what_a_certificate_says() -> None:
    [found] = in_bundle(SERVING.cert_pem)
    assert (found.subject, found.start, found.end) == ("CN=a.b.svc", NOW - 3600, NOW + 86400)
    assert list(found.names) == ["a.b.svc", "*.example.com", "10.0.0.1"]
    assert [found.is_for(host) for host in ("a.b.svc", "A.B.SVC", "x.example.com", "x.y.example.com", "b.svc")] == [
        *(True, True, True, False, False)
    ]


@pytest.mark.parametrize("pem", [b"", b"nothing", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate(pem: bytes) -> None:
    with pytest.raises(ValueError, match="no certificate in PEM"):
        in_bundle(pem)


def test_who_signed_it() -> None:
    chain = in_bundle(SERVING.cert_pem)
    assert is_signed_by(chain, in_bundle(OTHER.cert_pem + CA.cert_pem))
    assert not is_signed_by(chain, in_bundle(OTHER.cert_pem))
    assert is_signed_by(chain, chain)  # a certificate that is its own bundle
