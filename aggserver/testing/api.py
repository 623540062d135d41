"""The few requests that `server.py` sends: apply objects, make and delete a namespace.

With the standard library alone: the `kubernetes` package takes as long to import as a server to start, and tests may use another
client.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

__all__ = ["Api", "RequestError"]

_SECONDS = 120.0  # for an answer: on a busy machine only a server that hangs takes as long
_POLL_SECONDS = 0.01
_APPLY = "application/apply-patch+yaml"
_MANAGER = "?fieldManager=aggserver-testing"
_DEFINITION, _NAMESPACE = "CustomResourceDefinition", "Namespace"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class RequestError(Exception):
    """The server has refused a request. The text names the object and has the server's message."""


class Api:
    """Sends requests as the administrator.

    kubeconfig: of a server that is ready. folder: where the kubeconfig's certificates are written as files.
    """

    def __init__(self, url: str, kubeconfig: Path, folder: Path) -> None:
        from aggserver.meta import codec

        content = codec.decode_yaml(kubeconfig.read_bytes())
        cluster, user = content["clusters"][-1]["cluster"], content["users"][-1]["user"]
        self.ca_file = _written(folder / "ca.crt", cluster["certificate-authority-data"])
        self.certificate_file = _written(folder / "client.crt", user["client-certificate-data"])
        self.key_file = _written(folder / "client.key", user["client-key-data"])
        self._tls = ssl.create_default_context(cafile=str(self.ca_file))
        self._tls.load_cert_chain(self.certificate_file, self.key_file)
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port

    def apply(self, objects: Iterable[Mapping[str, Any]], seconds: float) -> None:
        """Apply objects: definitions first, which must be established within `seconds`, then namespaces, then the rest.

        Raises RequestError.
        """
        waiting = sorted(objects, key=lambda obj: (obj.get("kind") != _DEFINITION, obj.get("kind") != _NAMESPACE))
        definitions = [obj for obj in waiting if obj.get("kind") == _DEFINITION]
        for obj in definitions:
            self._put(_DEFINITIONS, obj)
        deadline = time.monotonic() + seconds
        for obj in definitions:
            self._wait_until_established(str(obj["metadata"].get("name")), deadline)
        for obj in waiting[len(definitions) :]:
            self._put(self._path(obj), obj)

    def create_namespace(self, prefix: str) -> str:
        """Create a namespace with a generated name, and return the name. Raises RequestError."""
        body = {"apiVersion": "v1", "kind": _NAMESPACE, "metadata": {"generateName": f"{prefix}-"}}
        made = self._request("POST", "/api/v1/namespaces", body, f"namespace {prefix}-")
        return str(made["metadata"]["name"])

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace, if it exists. Raises RequestError."""
        self._request("DELETE", f"/api/v1/namespaces/{name}", None, f"namespace {name}", accepted=(404, 409))

    def _put(self, path: str, obj: Mapping[str, Any]) -> None:
        what = _name_of(obj)
        if name := obj["metadata"].get("name"):
            body = {key: value for key, value in obj.items() if key != "status"}
            self._request("PATCH", f"{path}/{quote(name)}{_MANAGER}&force=true", body, what, _APPLY)
        else:
            self._request("POST", path + _MANAGER, obj, what)

    def _wait_until_established(self, name: str, deadline: float) -> None:
        what = f"{_DEFINITION} {name}"
        while True:
            found = self._request("GET", f"{_DEFINITIONS}/{name}", None, what)
            conditions = {each["type"]: each for each in found.get("status", {}).get("conditions") or []}
            if conditions.get("Established", {}).get("status") == "True":
                return
            refused = conditions.get("NamesAccepted", {})
            if refused.get("status") == "False" or time.monotonic() > deadline:
                raise RequestError(f"{what} is not established: {refused.get('message') or 'no reason is given'}")
            time.sleep(_POLL_SECONDS)

    def _path(self, obj: Mapping[str, Any]) -> str:
        """The path of the collection of an object's kind, in its namespace. Raises RequestError."""
        group_version, kind = str(obj.get("apiVersion")), obj.get("kind")
        prefix = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        served = self._request("GET", prefix, None, _name_of(obj), accepted=(404,))
        for resource in served.get("resources") or []:
            if resource["kind"] == kind and "/" not in resource["name"]:
                namespace = obj["metadata"].get("namespace") or "default"
                return f"{prefix}/{f'namespaces/{namespace}/' if resource['namespaced'] else ''}{resource['name']}"
        raise RequestError(f"{_name_of(obj)}: the server does not serve {kind} of {group_version}")

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        what: str,
        content_type: str = "application/json",
        accepted: tuple[int, ...] = (),
    ) -> dict[str, Any]:
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=_SECONDS, context=self._tls)
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body), {"Content-Type": content_type, "Connection": "close"}
            )
            answer = connection.getresponse()
            content = answer.read()
        except http.client.HTTPException as error:
            raise RequestError(f"{what}: {type(error).__name__}: {error}") from None
        finally:
            connection.close()
        decoded = _decoded(content)
        if answer.status >= http.client.BAD_REQUEST and answer.status not in accepted:
            raise RequestError(f"{what}: {decoded.get('message') or content.decode(errors='replace')}")
        return decoded


def _decoded(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _name_of(obj: Mapping[str, Any]) -> str:
    return f"{obj.get('kind')} {obj['metadata'].get('name') or obj['metadata'].get('generateName', '')}"


def _written(file: Path, data: str) -> Path:
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(base64.b64decode(data))
    return file
