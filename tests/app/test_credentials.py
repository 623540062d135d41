"""The standalone server's certificates are renewed while it runs, and its kubeconfig with them."""

import base64
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from aggserver.app.credentials import Credentials
from aggserver.certificates.issuing import SubjectNames
from aggserver.certificates.keeper import CHECK_SECONDS
from aggserver.options import parse
from aggserver.server.tls import TLSConfig

DAY = 86400.0
START = 1_800_000_000.0
URL = "https://127.0.0.1:6443"


class Shown(TLSConfig):
    """What it was told last to show to new connections."""

    cert_pem = b""

    def update(self, **pem: bytes | None) -> bool:
        self.cert_pem = pem["cert_pem"] or b""
        return super().update(**pem)


class StopFollowing(Exception):
    pass


def days_later(clock: list[float], *days: float) -> Callable[[float], Awaitable[None]]:
    """A sleep that ends so many days after the start, each time it is called."""
    moments = iter(days)

    async def sleep(seconds: float) -> None:
        assert seconds == CHECK_SECONDS
        for day in moments:
            clock[0] = START + day * DAY
            return
        raise StopFollowing

    return sleep


def embedded(kubeconfig: Path) -> tuple[bytes, bytes]:
    """(the CAs, the administrator's certificate)"""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert cluster["server"] == URL
    return base64.b64decode(cluster["certificate-authority-data"]), base64.b64decode(user["client-certificate-data"])


async def test_renewed_while_it_runs(tmp_path: Path) -> None:
    clock = [START]
    tls = Shown()
    credentials = Credentials(tmp_path, SubjectNames.of("localhost"), tls, lambda: clock[0], parse(["dev"], {}))
    await credentials.start()
    credentials.publish(URL)
    serving = tmp_path / "certificates" / "tls.crt"
    first, (bundle, admin) = serving.read_bytes(), embedded(credentials.kubeconfig)

    with pytest.raises(StopFollowing):
        await credentials.run(days_later(clock, 100, 300))
    assert serving.read_bytes() != first
    assert tls.cert_pem == serving.read_bytes()
    assert embedded(credentials.kubeconfig)[0] == bundle
    renewed = x509.load_pem_x509_certificate(embedded(credentials.kubeconfig)[1])
    assert renewed.not_valid_after_utc > x509.load_pem_x509_certificate(admin).not_valid_after_utc

    with pytest.raises(StopFollowing):
        await credentials.run(days_later(clock, 2500, 2502))
    both = embedded(credentials.kubeconfig)[0]
    assert len(x509.load_pem_x509_certificates(both)) == 2
    config = credentials.authenticator.config
    assert config.client_ca is not None
    assert config.client_ca.pem == both


# name: (arguments, whether the start waits for the disk)
SYNCED = {
    "kept": ([], True),
    "kept, and may lose the last writes": (["--sqlite-synchronous=normal"], True),
    "thrown away": (["--sqlite-synchronous=off"], False),
    "in memory": (["--data=:memory:"], False),
}


@pytest.mark.parametrize("name", SYNCED)
async def test_only_what_is_kept_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    arguments, waits = SYNCED[name]
    syncs: list[int] = []
    monkeypatch.setattr(os, "fsync", syncs.append)
    options = parse(["dev", *arguments], {})
    credentials = Credentials(tmp_path, SubjectNames.of("localhost"), TLSConfig(), lambda: START, options)
    await credentials.start()
    credentials.publish(URL)
    assert credentials.kubeconfig.exists()
    assert len(syncs) == (10 if waits else 0)  # of four files of certificates, the kubeconfig, and their folders
