"""Manifests from URLs: what is read, and each way in which that fails in bounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from aggserver.standalone import download as module
from aggserver.standalone import manifests
from aggserver.standalone.download import DownloadError, download
from aggserver.standalone.manifests import ManifestError

MANIFEST = b"kind: A\nmetadata: {}\n"


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/found":
            self._answer(302, b"", ("Location", "/manifest.yaml?a=b"))
        elif self.path == "/file":
            self._answer(302, b"", ("Location", "file:///etc/passwd"))
        elif self.path == "/large":
            self._answer(200, b"#" * 300_000)
        elif self.path == "/manifest.yaml?a=b":
            self._answer(200, MANIFEST)
        else:
            self._answer(404, b"")

    def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_manifest(url: str) -> None:
    assert download(f"{url}/manifest.yaml?a=b") == MANIFEST
    assert download(f"{url}/found") == MANIFEST
    assert [(origin, obj["kind"]) for origin, obj in manifests.read([f"{url}/found"])] == [(f"{url}/found", "A")]


def test_no_manifest(url: str) -> None:
    with pytest.raises(ManifestError, match=f"^{url}/nothing: the server answers 404 Not Found$"):
        manifests.read([f"{url}/nothing"])


@pytest.mark.parametrize(
    ("address", "text"),
    [
        pytest.param("http://127.0.0.1:1/", "Connection refused", id="nobody-there"),
        pytest.param("http://", "no host given", id="no-host"),
        pytest.param("{url}/file", "302 Found - Redirection to url", id="another-scheme"),
    ],
)
def test_what_is_refused(url: str, address: str, text: str) -> None:
    with pytest.raises(DownloadError, match=text):
        download(address.format(url=url))


def test_no_more_than_so_much(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 2**17)
    with pytest.raises(DownloadError, match="is larger than"):
        download(f"{url}/large")


def test_no_longer_than_so_long(url: str) -> None:
    moments = iter([0.0, 1.0])
    with pytest.raises(DownloadError, match="took longer than 60 s"):
        download(f"{url}/large", lambda: next(moments, module.TOTAL_SECONDS + 1))
