"""The exit status of `aggserver doctor` where it can't look, and which kubeconfig it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aggserver.commands.doctor.command import run
from aggserver.options import parse


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "config"
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "one", "cluster": {"server": server}}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "me"}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
    }
    path.write_text(json.dumps(config))
    return path


class Said:
    def __init__(self) -> None:
        self.results: list[str] = []
        self.told: list[str] = []

    async def doctor(self, *words: str, **environ: str) -> int:
        return await run(parse(["doctor", *words], {}), "0", environ, self.results.append, self.told.append)


async def test_a_context_that_is_not_there(tmp_path: Path) -> None:
    said = Said()
    path = kubeconfig(tmp_path, "https://127.0.0.1:1")
    assert await said.doctor("--context", "other", KUBECONFIG=str(path)) == 2
    assert said.results == []
    assert f"aggserver: kubeconfig {path}" in said.told[-1]
    assert "other" in said.told[-1]


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    said = Said()
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    assert await said.doctor("--kubeconfig", str(path), KUBECONFIG="/nowhere") == 2
    assert said.results == []
    assert said.told[-1].startswith("aggserver: kube-apiserver can't be asked: http://127.0.0.1:1/version: ")


async def test_the_usual_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube", "http://127.0.0.1:1")
    said = Said()
    assert await said.doctor() == 2
    assert "http://127.0.0.1:1/version" in said.told[-1]


@pytest.mark.parametrize(
    ("status", "text", "why"),
    [(401, "Unauthorized", "401: Unauthorized"), (200, "<html>", "/version is not that of a kube-apiserver")],
)
async def test_a_server_that_does_not_know_the_user(tmp_path: Path, status: int, text: str, why: str) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status, text=text)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    said = Said()
    try:
        path = kubeconfig(tmp_path, f"http://127.0.0.1:{runner.addresses[0][1]}")
        assert await said.doctor("--kubeconfig", str(path)) == 2
    finally:
        await runner.cleanup()
    assert said.told[-1].endswith(why)


async def test_a_cluster_without_aggserver(tmp_path: Path) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.36.3"})
        return web.json_response({"metadata": {}, "items": []})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    said = Said()
    try:
        path = kubeconfig(tmp_path, f"http://127.0.0.1:{runner.addresses[0][1]}")
        assert await said.doctor("--kubeconfig", str(path)) == 1
    finally:
        await runner.cleanup()
    assert said.results[0].splitlines() == [
        "error: cluster: no APIService and no Service of aggserver was found",
        "  why:  APIServices of aggserver have the label app.kubernetes.io/managed-by=aggserver, Services "
        "app.kubernetes.io/name=aggserver; --service-namespace and --service-name name another Service",
        "  mend: kubectl apply --kustomize manifests",
        "no installation found: 1 error, 0 warnings",
    ]
