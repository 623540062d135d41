"""Secrets whose type says what they have: the members of `data` that kube-apiserver asks for, and the name of a ServiceAccount.

Pure. Source: ValidateSecret in k8s.io/kubernetes pkg/apis/core/validation/validation.go, v1.36.3; that a Docker configuration is
JSON is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aggserver.meta.field import FieldError, Path, required
from aggserver.meta.json_types import JSONMapping

__all__ = ["secret_problems"]

_ACCOUNT_TOKEN, _ACCOUNT_NAME = "kubernetes.io/service-account-token", "kubernetes.io/service-account.name"
_BASIC_AUTH, _SSH_AUTH = "kubernetes.io/basic-auth", "kubernetes.io/ssh-auth"
_MEMBERS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def secret_problems(secret: JSONMapping) -> list[FieldError]:
    return [required(path) for path in _missing(secret)]


def _missing(secret: JSONMapping) -> Iterator[Path]:
    kind, data, path = secret.get("type"), secret.get("data") or {}, Path("data")
    if kind == _ACCOUNT_TOKEN and not (secret["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME):
        yield Path("metadata").child("annotations").key(_ACCOUNT_NAME)
    if kind == _SSH_AUTH and not data.get("ssh-privatekey"):
        yield path.key("ssh-privatekey")
    if kind == _BASIC_AUTH and data.keys().isdisjoint({"username", "password"}):
        yield from (path.key("username"), path.key("password"))
    yield from (path.key(name) for name in _MEMBERS.get(kind or "", ()) if name not in data)
