from __future__ import annotations

import pytest

from aggserver.webhook.config import ClientConfig, ServiceReference, request_url

URLS = {
    "a path": (ClientConfig("https://a.test:1/convert"), "https://a.test:1/convert"),
    "no path": (ClientConfig("https://a.test"), "https://a.test/"),
    "a slash at the end": (ClientConfig("https://a.test/a/b/"), "https://a.test/a/b"),
    "dots": (ClientConfig("https://a.test/a/../../b/./c"), "https://a.test/b/c"),
    "many slashes": (ClientConfig("https://a.test//a///b"), "https://a.test/a/b"),
    "escapes": (ClientConfig("https://a.test/a%20b%2Fc/d:e,f"), "https://a.test/a%20b/c/d:e,f"),
    "IPv6": (ClientConfig("https://[::1]:8443/x"), "https://[::1]:8443/x"),
    "a service": (ClientConfig(service=ServiceReference("n", "s")), "https://s.n.svc:443/"),
    "a service with a path": (ClientConfig(service=ServiceReference("n", "s", "p/q", 8443)), "https://s.n.svc:8443/p/q"),
}


@pytest.mark.parametrize(("config", "expected"), URLS.values(), ids=URLS)
def test_urls(config: ClientConfig, expected: str) -> None:
    assert request_url(config, 30) == f"{expected}?timeout=30s"


@pytest.mark.parametrize(
    ("seconds", "text"), [(1, "1s"), (10.5, "10.5s"), (0.25, "250ms"), (60, "1m0s"), (90, "1m30s"), (3600, "1h0m0s")]
)
def test_timeouts(seconds: float, text: str) -> None:
    assert request_url(ClientConfig("https://a.test"), seconds) == f"https://a.test/?timeout={text}"


def test_nothing_to_call() -> None:
    with pytest.raises(ValueError, match="must have either service or URL"):
        request_url(ClientConfig(), 30)
