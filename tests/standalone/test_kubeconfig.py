"""The kubeconfig: what is in it, and who may read it."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import yaml

from aggserver.standalone import kubeconfig


def test_render() -> None:
    tree = yaml.safe_load(kubeconfig.render("https://127.0.0.1:6443", b"CA", b"CERT", b"KEY"))
    assert (tree["apiVersion"], tree["kind"], tree["current-context"]) == ("v1", "Config", "aggserver")
    (context,) = tree["contexts"]
    (cluster,) = tree["clusters"]
    (user,) = tree["users"]
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"], "namespace": "default"}
    assert cluster["cluster"]["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == b"CA"
    assert base64.b64decode(user["user"]["client-certificate-data"]) == b"CERT"
    assert base64.b64decode(user["user"]["client-key-data"]) == b"KEY"


def test_write(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("old, and open to all")
    path.chmod(0o644)
    kubeconfig.write(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
