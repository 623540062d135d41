"""Secrets with a special type: the members of `data` that kube-apiserver requires, and the name of a ServiceAccount.

Pure. Source: ValidateSecret in k8s.io/kubernetes pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping

from aggserver.meta import codec
from aggserver.meta.field import FieldError, Path, invalid, required
from aggserver.meta.golang import json_kind
from aggserver.meta.json_types import JSONMapping

__all__ = ["secret_problems"]

_ACCOUNT_TOKEN, _ACCOUNT_NAME = "kubernetes.io/service-account-token", "kubernetes.io/service-account.name"
_BASIC_AUTH, _SSH_AUTH = "kubernetes.io/basic-auth", "kubernetes.io/ssh-auth"
# Type -> the member that must be a JSON object.
_DOCKER: Mapping[str, str] = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_MEMBERS: Mapping[str, tuple[str, ...]] = {
    **{kind: (name,) for kind, name in _DOCKER.items()},
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def secret_problems(secret: JSONMapping) -> list[FieldError]:
    missing = [required(path) for path in _missing(secret)]
    name = _DOCKER.get(secret.get("type") or "")
    if name is None or missing:
        return missing
    why = _not_an_object(base64.b64decode((secret.get("data") or {})[name]))
    return [invalid(Path("data").key(name), "<secret contents redacted>", why)] if why else []


def _not_an_object(text: bytes) -> str:
    """Go's error for JSON that can't be read as a map, '' for null and objects."""
    try:
        value = codec.decode_json(text)
    except codec.DecodeError as error:
        return str(error)
    if isinstance(value, dict | None):
        return ""
    return f"json: cannot unmarshal {json_kind(value)} into Go value of type map[string]interface {{}}"


def _missing(secret: JSONMapping) -> Iterator[Path]:
    kind, data, path = secret.get("type"), secret.get("data") or {}, Path("data")
    if kind == _ACCOUNT_TOKEN and not (secret["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME):
        yield Path("metadata").child("annotations").key(_ACCOUNT_NAME)
    if kind == _SSH_AUTH and not data.get("ssh-privatekey"):
        yield path.key("ssh-privatekey")
    if kind == _BASIC_AUTH and data.keys().isdisjoint({"username", "password"}):
        yield from (path.key("username"), path.key("password"))
    yield from (path.key(name) for name in _MEMBERS.get(kind or "", ()) if name not in data)
