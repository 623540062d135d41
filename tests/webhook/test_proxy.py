from __future__ import annotations

import pytest

from aggserver.webhook.proxy import proxy_for

PROXY = "http://proxy.test:3128"

CASES = {
    "by default": ("hook.test", {}, True),
    "all": ("hook.test", {"NO_PROXY": "*"}, False),
    "the name": ("hook.test", {"NO_PROXY": "a.test, hook.test"}, False),
    "another name": ("hook.test", {"NO_PROXY": "ook.test"}, True),
    "a name above it": ("a.hook.test", {"NO_PROXY": "hook.test"}, False),
    "a domain": ("hook.test", {"NO_PROXY": ".test"}, False),
    "a domain is not its name": ("hook.test", {"NO_PROXY": ".hook.test"}, True),
    "a wildcard": ("hook.test", {"NO_PROXY": "*.test"}, False),
    "capitals": ("HOOK.test.", {"NO_PROXY": "hook.TEST"}, False),
    "the port": ("hook.test", {"NO_PROXY": "hook.test:8443"}, False),
    "another port": ("hook.test", {"NO_PROXY": "hook.test:443"}, True),
    "a CIDR": ("10.1.2.3", {"NO_PROXY": "10.0.0.0/8"}, False),
    "another CIDR": ("10.1.2.3", {"NO_PROXY": "11.0.0.0/8,nonsense/8"}, True),
    "a CIDR is not for names": ("hook.test", {"NO_PROXY": "10.0.0.0/8"}, True),
    "an IPv6 address": ("fd00::7", {"NO_PROXY": "fd00::7"}, False),
    "an IPv6 address with the port": ("fd00::7", {"NO_PROXY": "[fd00::7]:8443"}, False),
    "an IPv6 CIDR": ("fd00::7", {"NO_PROXY": "fd00::/64"}, False),
    "small letters": ("hook.test", {"no_proxy": "hook.test"}, False),
    "this machine": ("localhost", {}, False),
    "this machine's address": ("127.0.0.2", {}, False),
    "this machine's IPv6 address": ("::1", {}, False),
}


@pytest.mark.parametrize(("host", "more", "expected"), CASES.values(), ids=CASES)
def test_hosts(host: str, more: dict[str, str], expected: bool) -> None:
    assert proxy_for(host, 8443, {"HTTPS_PROXY": PROXY, **more}) == (PROXY if expected else "")


def test_proxies() -> None:
    assert proxy_for("hook.test", 443, {}) == ""
    assert proxy_for("hook.test", 443, {"HTTP_PROXY": PROXY}) == ""
    assert proxy_for("hook.test", 443, {"https_proxy": "proxy.test:1"}) == "http://proxy.test:1"
