"""SecretStore: keeps the server's own certificates in a Secret, so that replicas and restarts share one CA.

Used in a cluster if no certificate files are given. Two replicas that start together both make a CA. The Secret's resourceVersion
decides whose is saved, and the other loads it.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from aggserver.certificates.store import StoreConflictError
from aggserver.cluster import Cluster, ClusterError, find

__all__ = ["SecretStore"]

MANAGED_BY = {"app.kubernetes.io/managed-by": "aggserver"}


class SecretStore:
    """A CertificateStore in the Secret `namespace`/`name`, created at the first save. Raises ClusterError and Unreachable."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self._name = name
        # As last loaded; None if there was none.
        self._secret: dict[str, Any] | None = None

    async def load(self) -> dict[str, bytes]:
        self._secret = await find(self._cluster, f"{self._secrets}/{self._name}")
        if self._secret is None:
            return {}
        data = self._secret.get("data") or {}
        try:
            return {name: base64.b64decode(text, validate=True) for name, text in data.items()}
        except binascii.Error as error:
            raise ClusterError(200, "", f"Secret {self._name}: its data is not base64: {error}") from error

    async def save(self, files: dict[str, bytes]) -> None:
        """Replace all files. Raises StoreConflictError if another replica has saved since `load`."""
        data = {name: base64.b64encode(content).decode() for name, content in files.items()}
        try:
            if self._secret is None:
                self._secret = await self._cluster.request("POST", self._secrets, body=self._new(data))
            else:
                # Keeps labels and owner references, which administrators may have set.
                body = {**self._secret, "data": data}
                self._secret = await self._cluster.request("PUT", f"{self._secrets}/{self._name}", body=body)
        except ClusterError as error:
            # A Secret deleted in between is a conflict, too. A 404 at its creation means that the namespace doesn't exist.
            if error.code == 409 or (error.code == 404 and self._secret is not None):
                raise StoreConflictError(error.message) from error
            raise

    def _new(self, data: dict[str, str]) -> dict[str, Any]:
        metadata = {"name": self._name, "labels": MANAGED_BY}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
