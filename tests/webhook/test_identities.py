from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from aggserver.webhook.identities import NOBODY, Identities, WebhookIdentity

USERS = {
    name: WebhookIdentity(f"Bearer {name}")
    for name in ("hook.team.svc:8443", "hook.team.svc", "*.team.svc", "*.team.svc:8443", "*.svc:443", "example.com", "*")
}

# (host, port): the name that counts, in upstream's order.
CASES = {
    ("hook.team.svc", 8443): "hook.team.svc:8443",
    ("hook.team.svc", 443): "*.svc:443",
    ("other.team.svc", 443): "*.svc:443",
    ("other.team.svc", 8443): "*.team.svc:8443",
    ("hook.other.svc", 9443): "*",
    ("example.com", 443): "example.com",
    ("example.com", 8443): "*",
    ("localhost", 443): "*",
}


@pytest.mark.parametrize(("host", "port"), CASES)
def test_the_most_exact_name_counts(host: str, port: int) -> None:
    assert Identities(USERS).of(host, port) is USERS[CASES[host, port]]


def test_without_a_port_443_is_meant() -> None:
    users = {name: USERS[name] for name in ("hook.team.svc", "*.team.svc")}
    found = Identities(users)
    assert found.of("hook.team.svc", 443) is users["hook.team.svc"]
    assert found.of("other.team.svc", 443) is users["*.team.svc"]
    assert found.of("hook.team.svc", 8443) is NOBODY


def test_otherwise_the_default() -> None:
    default = WebhookIdentity("Bearer default")
    assert Identities({}, default).of("example.com", 443) is default
    assert Identities({}).of("example.com", 443) is NOBODY


def kubeconfig(*users: dict[str, Any], current: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": f"user{number}", "user": user} for number, user in enumerate(users)],
        "contexts": [{"name": "here", "context": {"user": current}}],
        "current-context": "here" if current else "",
    }


def test_what_users_have(tmp_path: Path) -> None:
    for name in ("cert", "key", "token"):
        (tmp_path / name).write_text(name)
    users = Identities.of_kubeconfig(
        kubeconfig(
            {"token": "t"},
            {"username": "u", "password": "p"},
            {"client-certificate": "cert", "client-key": str(tmp_path / "key"), "token": "t"},
            {"client-certificate-data": base64.b64encode(b"c").decode(), "client-key-data": base64.b64encode(b"k").decode()},
            {"tokenFile": "token"},
            {},
            current="user1",
        ),
        tmp_path,
    )
    assert [users.of(f"user{number}", 443) for number in range(6)] == [
        WebhookIdentity("Bearer t"),
        WebhookIdentity("Basic dTpw"),
        WebhookIdentity("Bearer t", None, b"cert", b"key"),
        WebhookIdentity("", None, b"c", b"k"),
        WebhookIdentity("", tmp_path / "token"),
        NOBODY,
    ]
    assert users.of("example.com", 443) == WebhookIdentity("Basic dTpw")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "exec": ({"exec": {"command": "x"}}, "exec is not supported for webhooks"),
    "impersonation": ({"as": "alice"}, "as is not supported for webhooks"),
    "auth provider": ({"auth-provider": {"name": "x"}}, "auth-provider is not supported for webhooks"),
    "both": ({"token": "t", "username": "u"}, "a user has either a token or a password"),
    "no key": ({"client-certificate-data": "Yw=="}, "client-certificate and client-key go together"),
    "no base64": ({"client-certificate-data": "?"}, "client-certificate-data: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, tmp_path: Path) -> None:
    user, text = REFUSED[case]
    with pytest.raises(ValueError, match=text):
        Identities.of_kubeconfig(kubeconfig(user), tmp_path)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Identities.of_kubeconfig(kubeconfig({"tokenFile": "token"}), tmp_path)
