from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.binaries import MODULE, NAMES, BinariesError, cache_folder, kubernetes_version, obtain
from tests.controlplane.toolchain import ToolchainError, go_environment, parse_version, required_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("go version go1.26.8 linux/amd64", (1, 26, 8), id="release"),
        pytest.param("1.26", (1, 26, 0), id="language version"),
        pytest.param("go1.27rc1", (1, 27, 0), id="release candidate"),
        pytest.param("go version devel +abc linux/amd64", (), id="unreleased"),
        pytest.param("", (), id="nothing"),
    ],
)
def test_parse_version(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version


def test_required_version(tmp_path: Path) -> None:
    go_mod = tmp_path / "go.mod"
    go_mod.write_text("module m\n\ngo 1.26.0\n")
    assert required_version(go_mod) == (1, 26, 0)
    go_mod.write_text("module m\n")
    with pytest.raises(ToolchainError, match="has no go line"):
        required_version(go_mod)


def test_go_environment_drops_what_is_set_for_other_work() -> None:
    given = {"GOFLAGS": "-mod=vendor", "GOOS": "windows", "GOPROXY": "https://proxy.example", "PATH": "/bin"}
    environment = go_environment(given)
    assert environment["GOFLAGS"] == "-mod=readonly -buildvcs=false"
    assert environment["GOTOOLCHAIN"] == "local"
    assert environment["GOPROXY"] == "https://proxy.example"
    assert "GOOS" not in environment


@pytest.mark.parametrize(
    ("environ", "parent"),
    [
        pytest.param({"HOME": "/home/jane"}, "/home/jane/.cache/aggserver", id="home"),
        pytest.param({"HOME": "/home/jane", "XDG_CACHE_HOME": "/cache"}, "/cache/aggserver", id="XDG_CACHE_HOME"),
        pytest.param({"HOME": "/home/jane", "XDG_CACHE_HOME": ""}, "/home/jane/.cache/aggserver", id="empty XDG_CACHE_HOME"),
    ],
)
def test_cache_folder(environ: dict[str, str], parent: str) -> None:
    folder = cache_folder(environ)
    assert str(folder.parent) == parent
    assert folder.name.startswith("controlplane-")


def test_the_version_is_that_of_go_mod() -> None:
    assert f"k8s.io/kubernetes {kubernetes_version()} " in (MODULE / "go.mod").read_text()


def test_kubebuilder_assets_win(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).touch(mode=0o755)
    assert obtain({"KUBEBUILDER_ASSETS": str(tmp_path)}, print).kubectl == tmp_path / "kubectl"


def test_incomplete_kubebuilder_assets_fail(tmp_path: Path) -> None:
    for name in ("etcd", "kube-apiserver", "kubectl"):
        (tmp_path / name).touch(mode=0o755)
    with pytest.raises(BinariesError, match="which has no kube-controller-manager"):
        obtain({"KUBEBUILDER_ASSETS": str(tmp_path)}, print)
