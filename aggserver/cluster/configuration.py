"""Credentials for the hosting API server: from the files of a pod's service account, or from a kubeconfig.

`client.py` loads `ClientCredentials` from a `ConfigurationSource` at the start, after `changed()` reports that files were
replaced, and after a 401. The service account's files are read without a library. A kubeconfig, which may have exec plugins and
auth providers, is read with `kubernetes.aio.config`; this is the only use of that library, and it is imported only then.
Source: k8s.io/client-go rest/config.go (InClusterConfig), transport/token_source.go, v0.36.3.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from aggserver import disk
from aggserver.errors import AggserverError
from aggserver.meta import yaml_text

__all__ = [
    "SERVICE_ACCOUNT_FOLDER",
    "ClientCredentials",
    "ConfigurationError",
    "ConfigurationSource",
    "InClusterSource",
    "KubeconfigSource",
]

SERVICE_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


# Where a kubeconfig names files: its list, the member of each entry, and its keys.
_NAMING = (
    ("clusters", "cluster", ("certificate-authority",)),
    ("users", "user", ("client-certificate", "client-key", "tokenFile")),
)


class ConfigurationError(AggserverError):
    """The configuration for the API server is missing or invalid. The text says what was read and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """`server` is a URL without a trailing slash. `authorization` is the header's value, '' for none.

    `server_name` is the name to verify the certificate for, '' for the URL's host.
    """

    server: str
    tls: ssl.SSLContext | None
    authorization: str = field(default="", repr=False)
    server_name: str = ""
    proxy: str = ""


class ConfigurationSource(Protocol):
    async def load(self) -> ClientCredentials:
        """Read all files. Raises ConfigurationError; after that, `changed` is false until the files change again."""

    def changed(self) -> bool:
        """Whether a file changed since `load`. Runs before every request, so it must not take more than a few microseconds."""


class InClusterSource:
    """The pod's service account. The kubelet replaces its token, and may replace the CA, while the process runs."""

    def __init__(self, environment: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT_FOLDER) -> None:
        self._environment = environment
        self._token = folder / "token"
        self._ca = folder / "ca.crt"
        self._seen: Sequence[disk.Signature | None] = ()
        self._ca_pem = ""
        self._tls: ssl.SSLContext | None = None

    async def load(self) -> ClientCredentials:
        host = self._environment.get("KUBERNETES_SERVICE_HOST", "")
        port = self._environment.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise ConfigurationError(
                "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; give a kubeconfig"
            )
        self._seen = self._signatures()
        token = _read(self._token).strip()
        pem = _read(self._ca)
        if self._tls is None or pem != self._ca_pem:
            # Keep the context while the CA is the same, because connections are pooled by context.
            self._tls = _client_context(str(self._ca), ca_pem=pem)
            self._ca_pem = pem
        return ClientCredentials(f"https://{f'[{host}]' if ':' in host else host}:{port}", self._tls, f"Bearer {token}")

    def changed(self) -> bool:
        return self._signatures() != self._seen

    def _signatures(self) -> Sequence[disk.Signature | None]:
        return (disk.signature(self._token), disk.signature(self._ca))


class KubeconfigSource:
    """`path` may be several files joined by `:`, as KUBECONFIG allows. context: '' for the current one.

    The files that it names (CA, client certificate and key, token) are followed as it is itself.
    """

    def __init__(self, path: str, context: str = "") -> None:
        self._context = context
        self._paths = [Path(part).expanduser() for part in path.split(os.pathsep) if part]
        self._seen: Sequence[disk.Signature | None] = ()
        self._named: tuple[Path, ...] = ()
        self._made_from: tuple[Any, ...] = ()
        self._tls: ssl.SSLContext | None = None

    async def load(self) -> ClientCredentials:
        from kubernetes.aio.client import Configuration
        from kubernetes.aio.config import ConfigException, load_kube_config

        # Before they are read, so that a change meanwhile is seen.
        self._named = tuple(_files_named_in(self._paths))
        self._seen = self._signatures()
        if not any(path.is_file() for path in self._paths):
            raise ConfigurationError(f"no kubeconfig at {os.pathsep.join(map(str, self._paths))}")
        found = Configuration()
        try:
            await load_kube_config(
                config_file=os.pathsep.join(map(str, self._paths)),
                context=self._context or None,
                client_configuration=found,
                persist_config=False,
            )
        except (ConfigException, OSError, ValueError) as error:
            raise ConfigurationError(f"kubeconfig {os.pathsep.join(map(str, self._paths))}: {error}") from error
        except Exception as error:
            # The library does not validate the file, so an invalid one can raise any exception.
            raise ConfigurationError(f"{os.pathsep.join(map(str, self._paths))} is not a kubeconfig") from error
        return ClientCredentials(
            found.host.rstrip("/"),
            self._context_for(found) if found.host.startswith("https") else None,
            found.api_key.get("BearerToken", ""),
            found.tls_server_name or "",
            found.proxy or "",
        )

    def changed(self) -> bool:
        return self._signatures() != self._seen

    def _signatures(self) -> Sequence[disk.Signature | None]:
        return [disk.signature(path) for path in (*self._paths, *self._named)]

    def _context_for(self, found: Any) -> ssl.SSLContext:
        files = [found.ssl_ca_cert, found.cert_file, found.key_file]
        made_from = (found.verify_ssl, *(_read(Path(name)) if name else None for name in files))
        if self._tls is None or made_from != self._made_from:
            self._tls = _client_context(files[0], certificate=files[1], key=files[2], verify=found.verify_ssl)
            self._made_from = made_from
        return self._tls


def _files_named_in(kubeconfigs: Sequence[Path]) -> Iterator[Path]:
    """The files that kubeconfigs name, by names relative to their folders. What is wrong in one is reported by its load."""
    for path in kubeconfigs:
        try:
            content, _ = yaml_text.decode(path.read_bytes())
        except (OSError, yaml_text.YAMLTextError):
            continue
        for entries, inner, keys in _NAMING:
            listed = content.get(entries) if isinstance(content, dict) else None
            for entry in listed if isinstance(listed, list) else ():
                settings = entry.get(inner) if isinstance(entry, dict) else None
                if isinstance(settings, dict):
                    yield from (path.parent / name for key in keys if isinstance(name := settings.get(key), str) and name)


def _client_context(
    ca: str | None, *, ca_pem: str = "", certificate: str | None = None, key: str | None = None, verify: bool = True
) -> ssl.SSLContext:
    """A TLS context for a client. Not by `create_default_context`: its strict mode (Python 3.13) rejects CAs that Go accepts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if ca_pem:
            context.load_verify_locations(cadata=ca_pem)
        elif ca:
            context.load_verify_locations(cafile=ca)
        else:
            context.load_default_certs()
        if certificate:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"unusable certificates for the API server ({certificate or ca}): {error}") from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _read(path: Path) -> str:
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not a text file") from error
    if not text.strip():
        raise ConfigurationError(f"{path} is empty")
    return text
