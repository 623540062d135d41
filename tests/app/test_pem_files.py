"""Files with PEM that flags name: one that can't be used is one line, at the start and when it changes."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest

from aggserver import cli
from aggserver.apiextensions.registration import Service
from aggserver.app.serving_certificate import ServingCertificate
from aggserver.app.trust import overrides_from
from aggserver.authentication.delegating import TrustError
from aggserver.certificates.issuing import issue_serving, new_ca
from aggserver.options import parse
from aggserver.server.tls import TLSConfig
from tests.fakes.cluster import FakeCluster

NOW = time.time()
CA, OTHER = new_ca("ca", NOW), new_ca("other", NOW)
PAIR = issue_serving(CA, ["localhost"], [], NOW)
CUT_OFF = PAIR.cert_pem[: len(PAIR.cert_pem) // 2] + b"-----END CERTIFICATE-----\n"
NO_CA = "data does not contain any valid RSA or ECDSA certificates"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with good files and bad ones."""
    files = {
        "ca": CA.cert_pem,
        "crt": PAIR.cert_pem,
        "key": PAIR.key_pem,
        "garbage": b"garbage\n",
        "cut-off": CUT_OFF,
        "noise": b"\xff",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": str(tmp_path / "garbage")}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "a", "user": {"token": "t"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    (tmp_path / "bad-ca.json").write_text(json.dumps(kubeconfig))
    del cluster["certificate-authority"]
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    monkeypatch.chdir(tmp_path)
    return tmp_path


PAIR_FLAGS = "--tls-cert-file {} --tls-private-key-file {}"
ETCD = "--storage etcd --etcd-servers https://127.0.0.1:1 --etcd-"
AT_START = {
    "--client-ca-file garbage": f"--client-ca-file garbage: {NO_CA}",
    "--client-ca-file cut-off": f"--client-ca-file cut-off: {NO_CA}",
    "--client-ca-file missing": "missing: No such file or directory",
    "--requestheader-client-ca-file garbage": f"--requestheader-client-ca-file garbage: {NO_CA}",
    PAIR_FLAGS.format("garbage", "key"): "there is no certificate in PEM",
    PAIR_FLAGS.format("cut-off", "key"): "its PEM can't be read",
    PAIR_FLAGS.format("crt", "garbage"): "--tls-private-key-file garbage: serving certificate: there is no private key in PEM",
    PAIR_FLAGS.format("ca", "key"): "KEY_VALUES_MISMATCH",
    PAIR_FLAGS.format("crt", "key") + " --ca-bundle-file garbage": f"--ca-bundle-file garbage: {NO_CA}",
    "--kubeconfig bad-ca.json": "unusable certificates for the API server",
    "--kubeconfig garbage": "garbage is not a kubeconfig",
    "--kubeconfig noise": "kubeconfig noise: ",
    ETCD + "cafile garbage": "--etcd-cafile garbage: there is no certificate in PEM",
    ETCD + "cafile ca --etcd-certfile garbage --etcd-keyfile key": "--etcd-certfile garbage, --etcd-keyfile key: ",
    ETCD + "cafile ca --etcd-certfile crt --etcd-keyfile garbage": "--etcd-certfile crt, --etcd-keyfile garbage: ",
    "--client-ca-file ca --requestheader-client-ca-file ca": (
        "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; "
        "--requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating proxy "
        "headers for arbitrary users"
    ),
}


@pytest.mark.parametrize("flags", AT_START)
@pytest.mark.usefixtures("folder")
def test_at_the_start(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = flags.split()
    common = ["serve", "--bind-address", "127.0.0.1", "--secure-port", "0", "--data", ":memory:"]
    kubeconfig = [] if "--kubeconfig" in given else ["--kubeconfig", "kubeconfig"]
    assert cli.main([*common, *kubeconfig, *given]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if " INFO " not in line]
    assert len(lines) == 1, lines
    assert AT_START[flags] in lines[0]


def test_overlap_is_right_with_names(folder: Path) -> None:
    options = parse(["serve", "--client-ca-file", "ca", "--requestheader-client-ca-file", "ca"], {})
    contents = {"client-ca-file": CA.cert_pem, "requestheader-client-ca-file": CA.cert_pem}
    with pytest.raises(TrustError, match="contain overlapping certificates"):
        overrides_from(options, contents)
    named = overrides_from(replace(options, requestheader_allowed_names=("front-proxy-client",)), contents)
    assert named.request_header is not None
    assert named.request_header.allowed_names == ("front-proxy-client",)
    assert overrides_from(options, {**contents, "client-ca-file": OTHER.cert_pem}).complete


CHANGES = {
    # what the file is replaced with: what the log says
    "crt": (b"garbage", "there is no certificate in PEM"),
    "key": (b"garbage", "there is no private key in PEM"),
    "ca": (b"garbage", f"--ca-bundle-file ca: {NO_CA}"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_serving_certificate_that_changes(folder: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    flags = [*PAIR_FLAGS.format("crt", "key").split(), "--ca-bundle-file", "ca"]
    tls = TLSConfig()
    certificate = ServingCertificate(parse(["serve", *flags], {}), FakeCluster(), Service("default", "aggserver", 443), tls)
    told: list[bytes] = []
    certificate.on_change(lambda: told.append(certificate.ca_bundle))
    shown = tls.context.current  # type: ignore[attr-defined]
    content, said = CHANGES[name]
    (folder / name).write_bytes(content)
    with caplog.at_level(logging.WARNING):
        certificate._watcher.poll()  # type: ignore[union-attr]
    assert tls.context.current is shown  # type: ignore[attr-defined]
    assert told == [CA.cert_pem], "a CA by which nothing is served is told to nobody"
    (record,) = caplog.records
    assert record.getMessage().startswith("keeping the serving certificate in use: ")
    assert said in record.getMessage()
    assert record.exc_info is None
