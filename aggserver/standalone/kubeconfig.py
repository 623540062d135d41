"""The kubeconfig of a server without a cluster: its address, its CA, and a user's certificate, all in one file.

Pure except `read` and `write_into`. The file is written when the server is ready, so a process that waits for it can use it at
once. Entries are merged into an existing file as kubectl, kind and minikube do: entries with our names are replaced, all others
stay, and our context becomes the current one. The administrator's context is `aggserver`, that of another user `NAME@aggserver`,
so that one file can have several.
Source: client-go tools/clientcmd/api/v1/types.go and tools/clientcmd/config.go, v0.36.3.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aggserver import disk
from aggserver.errors import AggserverError
from aggserver.meta import codec

__all__ = ["KubeconfigError", "cluster_of", "config", "merge", "read", "render", "write_into"]

NAME = "aggserver"
_LISTS = ("clusters", "users", "contexts")

Config = Mapping[str, Any]


class KubeconfigError(AggserverError):
    """An existing file can't be merged into. The text names the file and the reason."""


def config(server: str, ca_pem: bytes, cert_pem: bytes, key_pem: bytes, user: str = "") -> dict[str, Any]:
    """A kubeconfig. server: the URL. user: a name, '' for the administrator. The others are PEM, and are embedded."""
    credentials = {"client-certificate-data": _base64(cert_pem), "client-key-data": _base64(key_pem)}
    name = f"{user}@{NAME}" if user else NAME
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": server, "certificate-authority-data": _base64(ca_pem)}}],
        "users": [{"name": name, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": NAME, "user": name, "namespace": "default"}}],
        "current-context": name,
    }


def cluster_of(content: Config) -> tuple[str, bytes]:
    """The URL and the CA bundle (PEM) of a kubeconfig that a server has written; '' and b'' if there are none."""
    entries = (entry.get("cluster") or {} for entry in content.get("clusters") or [] if entry.get("name") == NAME)
    cluster = next(entries, {})
    try:
        return str(cluster.get("server", "")), base64.b64decode(cluster.get("certificate-authority-data", ""))
    except (TypeError, ValueError):
        return "", b""


def render(content: Config) -> bytes:
    return codec.dump_yaml(content)


def merge(ours: Config, theirs: Config) -> dict[str, Any]:
    """Merge our entries into an existing kubeconfig. theirs: the result of `read`."""
    merged = {**theirs, "apiVersion": "v1", "kind": "Config", "current-context": ours["current-context"]}
    for name in _LISTS:
        mine = {entry["name"] for entry in ours[name]}
        others = [entry for entry in theirs.get(name) or [] if entry.get("name") not in mine]
        merged[name] = [*others, *ours[name]]
    return merged


def read(path: Path) -> dict[str, Any]:
    """The content of a kubeconfig; empty if there is no file. Raises KubeconfigError if the file is not a kubeconfig."""
    try:
        content = codec.decode_yaml(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror}") from None
    except codec.DecodeError as error:
        raise KubeconfigError(f"{path}: not a kubeconfig: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(_is_list_of_entries(content.get(name)) for name in _LISTS):
        raise KubeconfigError(f"{path}: not a kubeconfig; left unchanged")
    return content


@disk.file_errors()
def write_into(path: Path, ours: Config) -> None:
    """Merge into the file, which is created if missing. Raises KubeconfigError, FileError."""
    path = path.resolve()  # so that a symbolic link is kept
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(path):
        disk.replace(path, render(merge(ours, read(path))))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock that kubectl and kind use, since they may write the file at the same time."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        lock.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        why = f"is in use: {lock} is there. If nobody writes it, that was left behind: remove it"
        raise KubeconfigError(f"{path} {why}") from None
    try:
        yield
    finally:
        lock.unlink()


def _is_list_of_entries(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(entry, dict) for entry in value))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
