"""The kubeconfig: what is in it, and who may read it."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest
import yaml

from aggserver.standalone import kubeconfig


def test_render() -> None:
    tree = yaml.safe_load(kubeconfig.render(kubeconfig.config("https://127.0.0.1:6443", b"CA", b"CERT", b"KEY")))
    assert (tree["apiVersion"], tree["kind"], tree["current-context"]) == ("v1", "Config", "aggserver")
    (context,) = tree["contexts"]
    (cluster,) = tree["clusters"]
    (user,) = tree["users"]
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"], "namespace": "default"}
    assert cluster["cluster"]["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == b"CA"
    assert base64.b64decode(user["user"]["client-certificate-data"]) == b"CERT"
    assert base64.b64decode(user["user"]["client-key-data"]) == b"KEY"


OURS = kubeconfig.config("https://127.0.0.1:6443", b"CA", b"CERT", b"KEY")
OTHERS = """\
apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
- {name: aggserver, cluster: {server: "https://earlier"}}
- {name: prod, cluster: {server: "https://prod"}}
contexts:
- {name: prod, context: {cluster: prod, user: me}}
users:
- {name: me, user: {token: secret}}
current-context: prod
"""


def test_into_a_file_with_other_contexts(tmp_path: Path) -> None:
    """As kubectl, kind and minikube do it: only what has our name is replaced, and ours is current."""
    real, path = tmp_path / "real", tmp_path / "config"
    real.write_text(OTHERS)
    real.chmod(0o644)
    path.symlink_to(real)
    kubeconfig.write_into(path, OURS)
    tree, before = yaml.safe_load(real.read_text()), yaml.safe_load(OTHERS)
    for name in ("clusters", "contexts", "users"):
        others = [entry for entry in before[name] if entry["name"] != "aggserver"]
        assert tree[name] == [*others, *OURS[name]]
    assert (tree["current-context"], tree["preferences"]) == ("aggserver", {"colors": True})
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert sorted(tmp_path.iterdir()) == [path, real]
    assert path.is_symlink()


@pytest.mark.parametrize("content", [None, "", "clusters: null\n"])
def test_into_a_new_or_empty_file(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "new" / "config"
    if content is not None:
        path.parent.mkdir()
        path.write_text(content)
    kubeconfig.write_into(path, OURS)
    assert yaml.safe_load(path.read_text()) == yaml.safe_load(kubeconfig.render(OURS))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["a: [", "just text", "[]", "clusters: {}", "users: [text]"])
def test_what_is_no_kubeconfig_stays_as_it_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(kubeconfig.KubeconfigError, match=f"{path}: not a kubeconfig"):
        kubeconfig.write_into(path, OURS)
    assert path.read_text() == content
    assert list(tmp_path.iterdir()) == [path]


def test_while_kubectl_writes_it(tmp_path: Path) -> None:
    path, lock = tmp_path / "config", tmp_path / "config.lock"
    path.write_text(OTHERS)
    lock.touch()
    with pytest.raises(kubeconfig.KubeconfigError, match=r"is in use: .*config.lock is there"):
        kubeconfig.write_into(path, OURS)
    assert (path.read_text(), lock.exists()) == (OTHERS, True)
