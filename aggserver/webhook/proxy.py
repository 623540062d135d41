"""The proxy for a URL, from the environment: HTTPS_PROXY, and NO_PROXY for hosts that need none.

NO_PROXY lists hosts, `.domains`, addresses and CIDRs, all but CIDRs also with a port, and `*` for all. A host stands for itself
and its subdomains. The loopback interface never needs a proxy.
Pure. Source: Go's golang.org/x/net/http/httpproxy.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network

__all__ = ["proxy_for"]


def proxy_for(host: str, port: int, environment: Mapping[str, str]) -> str:
    """The URL of the proxy for `https://host:port`; '' if there is none. host: a name, or an address without brackets."""
    proxy = environment.get("HTTPS_PROXY") or environment.get("https_proxy") or ""
    exceptions = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    name = host.lower().rstrip(".")
    if not proxy or _is_here(name) or any(_matches(each.strip().lower(), name, port) for each in exceptions.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_here(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _matches(pattern: str, name: str, port: int) -> bool:
    if not pattern or pattern == "*":
        return bool(pattern)
    if "/" in pattern:
        try:
            return ip_address(name) in ip_network(pattern, strict=False)
        except ValueError:
            return False
    wanted, colon, number = pattern.rpartition(":")
    if colon and number.isdigit() and (wanted.count(":") == 0 or wanted.endswith("]")):
        if int(number) != port:
            return False
        pattern = wanted
    pattern = pattern.strip("[]").removeprefix("*")
    if pattern.startswith("."):
        return name.endswith(pattern)
    return name == pattern or name.endswith(f".{pattern}")
