"""Identities: this server's credentials for webhooks, by their host, from the users of a kubeconfig.

The name of a user is a host, with a port unless that is 443: `hook.team.svc`, `hook.team.svc:8443`, `*.team.svc`, or `*` for all.
The most specific name applies; without one, the user of the current context. Relative file names are relative to the kubeconfig.
Source: k8s.io/apiserver pkg/util/webhook/authentication.go (defaultAuthenticationInfoResolver), v0.36.3.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["NOBODY", "Identities", "WebhookIdentity"]


@dataclass(frozen=True, slots=True)
class WebhookIdentity:
    """Credentials. authorization: the header's value, '' for none. certificate, key: PEM; empty for none.

    token_file: holds the bearer token, and is replaced from time to time.
    """

    authorization: str = field(default="", repr=False)
    token_file: Path | None = None
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


NOBODY = WebhookIdentity()


class Identities:
    """Finds the credentials for a webhook. users: by their names in the kubeconfig. default: if no name fits."""

    def __init__(self, users: Mapping[str, WebhookIdentity], default: WebhookIdentity = NOBODY) -> None:
        self._users = dict(users)
        self._default = default

    @classmethod
    def of_kubeconfig(cls, config: Any, folder: Path) -> Identities:
        """Read a kubeconfig. config: the decoded file. folder: the one it is in. Raises ValueError and OSError."""
        if not isinstance(config, dict):
            raise ValueError("a kubeconfig must be a mapping")
        users = {entry["name"]: _identity(entry.get("user") or {}, folder) for entry in config.get("users") or ()}
        contexts = {entry["name"]: entry.get("context") or {} for entry in config.get("contexts") or ()}
        current = contexts.get(config.get("current-context") or "", {}).get("user") or ""
        return cls(users, users.get(current, NOBODY))

    def of(self, host: str, port: int) -> WebhookIdentity:
        """The identity for a webhook at this host."""
        candidates = [*_names(f"{host}:{port}"), *(_names(host) if port == 443 else ()), "*"]
        return next((self._users[name] for name in candidates if name in self._users), self._default)


def _names(host: str) -> list[str]:
    """The names of users that fit a host, the most specific first: the host, then with a star for its first labels."""
    labels = host.split(".")
    return [host, *(f"*.{'.'.join(labels[at:])}" for at in range(1, len(labels)))]


def _identity(user: Mapping[str, Any], folder: Path) -> WebhookIdentity:
    for member in ("exec", "auth-provider", "as"):
        if user.get(member):
            raise ValueError(f"{member} is not supported for webhooks")
    token, token_file = user.get("token") or "", None
    if not token and user.get("tokenFile"):
        token_file = folder / user["tokenFile"]
        token_file.read_bytes()
    authorization = f"Bearer {token}" if token else ""
    if user.get("username") or user.get("password"):
        if authorization or token_file:
            raise ValueError("a user has either a token or a password")
        pair = f"{user.get('username') or ''}:{user.get('password') or ''}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    certificate, key = (_content(user, member, folder) for member in ("client-certificate", "client-key"))
    if bool(certificate) != bool(key):
        raise ValueError("client-certificate and client-key go together")
    return WebhookIdentity(authorization, token_file, certificate, key)


def _content(user: Mapping[str, Any], member: str, folder: Path) -> bytes:
    """The content of the file that a member names, or the data given in its place; empty for neither."""
    if data := user.get(f"{member}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise ValueError(f"{member}-data: {error}") from None
    return (folder / user[member]).read_bytes() if user.get(member) else b""
