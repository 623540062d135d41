"""The kubeconfig of a server without a cluster: its address, its CA, and an administrator's certificate, all in one file.

Pure but for `write`. Called by `app.py` when the server is ready: whoever waits for the file may use it at once.
Source: client-go tools/clientcmd/api/v1/types.go, v0.36.3.
"""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path

from aggserver.meta import codec

__all__ = ["render", "write"]

NAME = "aggserver"


def render(server: str, ca_pem: bytes, cert_pem: bytes, key_pem: bytes) -> bytes:
    """server: the URL. The rest is PEM, embedded."""
    user = {"client-certificate-data": _base64(cert_pem), "client-key-data": _base64(key_pem)}
    return codec.dump_yaml(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": NAME, "cluster": {"server": server, "certificate-authority-data": _base64(ca_pem)}}],
            "users": [{"name": NAME, "user": user}],
            "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
            "current-context": NAME,
        }
    )


def write(path: Path, content: bytes) -> None:
    """Puts the file in place whole, readable by its owner only: it holds a key."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(temporary).replace(path)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
