"""`aggserver dev user`: the certificate and the kubeconfig it makes, beside a server and before its first start."""

from __future__ import annotations

import asyncio
import base64
import stat
import time
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from aggserver import cli
from aggserver.app.credentials import Credentials
from aggserver.app.user import make_user
from aggserver.authentication.x509 import PeerCertificate, user_from, verify
from aggserver.certificates.issuing import SubjectNames, issue_client, issue_serving, new_ca
from aggserver.options import parse
from aggserver.server.tls import TLSConfig

NOW = time.time()
OTHER = new_ca("other", NOW)
URL = "https://127.0.0.1:12345"


def started(folder: Path, *flags: str) -> Credentials:
    """The credentials of a server that has been started in the folder."""
    credentials = Credentials(folder, SubjectNames.of("localhost"), TLSConfig(), time.time, parse(["dev", *flags], {}))
    asyncio.run(credentials.start())
    credentials.publish(URL)
    return credentials


def made(folder: Path, *more: str) -> str:
    file = folder / "alice"
    return asyncio.run(make_user(parse(["dev", "user", "alice", "--kubeconfig", str(file), "--data", str(folder), *more], {})))


def parts(kubeconfig: Path) -> tuple[str, bytes, bytes]:
    """The URL, the CA bundle and the certificate of the current context."""
    tree = yaml.safe_load(kubeconfig.read_text())
    named = {(kind, entry["name"]): entry[kind] for kind in ("cluster", "user", "context") for entry in tree[f"{kind}s"]}
    context = named["context", tree["current-context"]]
    cluster, user = named["cluster", context["cluster"]], named["user", context["user"]]
    ca, certificate = cluster["certificate-authority-data"], user["client-certificate-data"]
    return cluster["server"], base64.b64decode(ca), base64.b64decode(certificate)


def test_beside_a_server(tmp_path: Path) -> None:
    server = started(tmp_path)
    said = made(tmp_path, "--group", "a", "--group", "b")
    file = tmp_path / "alice"
    assert said == f"{file} is a kubeconfig of user alice in a, b for {URL}. Next: kubectl --kubeconfig {file} auth whoami"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    url, ca, certificate = parts(file)
    assert (url, ca) == parts(server.kubeconfig)[:2]
    client_ca = server.authenticator.config.client_ca
    assert client_ca is not None
    peer = PeerCertificate(x509.load_pem_x509_certificate(certificate).public_bytes(Encoding.DER))
    user = user_from(verify(peer, client_ca.roots, time.time()))
    assert user is not None
    assert (user.name, user.groups) == ("alice", ("a", "b"))


def test_before_the_first_start(tmp_path: Path) -> None:
    """The server finds the CA, and trusts the user."""
    assert "for https://127.0.0.1:6443" in made(tmp_path)
    ca = parts(tmp_path / "alice")[1]
    assert {path.name for path in (tmp_path / "certificates").iterdir()} == {"ca.crt", "ca.key"}
    assert parts(started(tmp_path).kubeconfig)[1] == ca


def test_in_a_file_with_the_administrator(tmp_path: Path) -> None:
    started(tmp_path, "--kubeconfig", str(tmp_path / "alice"))
    made(tmp_path, "--server", "https://elsewhere:1")
    tree = yaml.safe_load((tmp_path / "alice").read_text())
    assert [context["name"] for context in tree["contexts"]] == ["aggserver", "alice@aggserver"]
    assert [cluster["cluster"]["server"] for cluster in tree["clusters"]] == ["https://elsewhere:1"]
    assert tree["current-context"] == "alice@aggserver"


def test_where_the_server_has_a_certificate_of_others(tmp_path: Path) -> None:
    pair = issue_serving(OTHER, ["localhost"], [], NOW)
    for name, content in (("crt", pair.cert_pem), ("key", pair.key_pem), ("ca", OTHER.cert_pem)):
        (tmp_path / name).write_bytes(content)
    flags = [f"--tls-cert-file={tmp_path}/crt", f"--tls-private-key-file={tmp_path}/key"]
    assert parts(started(tmp_path, *flags).kubeconfig)[1] == pair.cert_pem
    assert parts(started(tmp_path, *flags, f"--ca-bundle-file={tmp_path}/ca").kubeconfig)[1] == OTHER.cert_pem
    made(tmp_path)
    assert parts(tmp_path / "alice")[1] == OTHER.cert_pem


def test_clients_of_another_ca(tmp_path: Path) -> None:
    """They are accepted besides our own, and no longer when the file changes."""
    (tmp_path / "ca").write_bytes(OTHER.cert_pem)
    server = started(tmp_path, f"--client-ca-file={tmp_path}/ca")
    pem = issue_client(OTHER, "eve", ["g"], NOW).cert_pem
    eve = PeerCertificate(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER))

    async def name() -> str:
        return (await server.authenticator.authenticate([], eve, NOW)).user.name

    assert asyncio.run(name()) == "eve"
    admin = PeerCertificate(x509.load_pem_x509_certificate(parts(server.kubeconfig)[2]).public_bytes(Encoding.DER))
    assert asyncio.run(server.authenticator.authenticate([], admin, time.time())).user.name == "aggserver-admin"
    (tmp_path / "ca").write_bytes(new_ca("third", NOW).cert_pem)
    server._watcher.poll()
    with pytest.raises(Exception, match="Unauthorized"):
        asyncio.run(name())


def test_a_bad_file_later_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "ca").write_bytes(OTHER.cert_pem)
    server = started(tmp_path, f"--client-ca-file={tmp_path}/ca")
    before = server.authenticator.config
    (tmp_path / "ca").write_text("garbage")
    server._watcher.poll()
    assert server.authenticator.config is before
    [record] = caplog.records
    assert record.getMessage().startswith(f"keeping the certificates in use: --client-ca-file {tmp_path}/ca: ")


def test_without_anonymous_requests(tmp_path: Path) -> None:
    server = started(tmp_path, "--anonymous-auth=false")
    with pytest.raises(Exception, match="Unauthorized"):
        asyncio.run(server.authenticator.authenticate([], None, NOW))


REFUSED = {
    "no kubeconfig": (["alice"], "dev user: --kubeconfig FILE is required: the file to write"),
    "no name": (["", "--kubeconfig", "f"], "NAME: must not be empty"),
    "a long name": (["a" * 65, "--kubeconfig", "f"], "NAME: at most 64 characters, the limit of a certificate's common name"),
    "in memory": (
        ["alice", "--kubeconfig", "f", "--data", ":memory:"],
        "dev user: a server with --data :memory: has its CA in the folder of its kubeconfig: use --data "
        '"$(dirname "$KUBECONFIG")"',
    ),
    "no URL": (
        ["alice", "--kubeconfig", "f", "--server", "localhost:6443"],
        "--server: must be a URL, such as https://127.0.0.1:6443",
    ),
    "no kubeconfig there": (["alice", "--kubeconfig", "text"], "text: not a kubeconfig; left unchanged"),
    "half a CA": (
        ["alice", "--kubeconfig", "f", "--data", "half"],
        "half/certificates: ca.crt and ca.key are no CA that can sign now; a start of the server makes another",
    ),
}


@pytest.mark.parametrize(("arguments", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("text")
    (tmp_path / "half" / "certificates").mkdir(parents=True)
    (tmp_path / "half" / "certificates" / "ca.crt").write_bytes(OTHER.cert_pem)
    assert cli.main(["dev", "user", *arguments]) in (1, 2)
    assert capsys.readouterr().err == f"aggserver: {said}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["half", "text"]
