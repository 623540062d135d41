"""The ConfigMap `extension-apiserver-authentication`: whom the hosting cluster trusts, followed for as long as the server runs.

kube-apiserver publishes there its client CA, its front-proxy CA and the names of the headers that the proxy sets.
`ConfigMapSource` reads it, hands whole configurations to the authenticator, and keeps the last good one through every failure.
Until the first one it says on the readiness check and in one line of the log what it waits for. Flags override either half, as
upstream's do.
Source: k8s.io/apiserver pkg/server/options/authentication.go, request/headerrequest/requestheader_controller.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
import re
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from aggserver.authentication.delegating import AuthenticationConfig, ClientCA
from aggserver.authentication.requestheader import RequestHeaderConfig
from aggserver.authentication.x509 import CertificateError, Roots
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.follow import follow
from aggserver.cluster.pacing import Sleep

__all__ = ["ConfigMapSource", "TrustOverrides"]

logger = logging.getLogger(__name__)

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"
READER_ROLE = "extension-apiserver-authentication-reader"

CLIENT_CA = "client-ca-file"
REQUEST_HEADER_CA = "requestheader-client-ca-file"

# Who we are to the API server, from its own refusal: `... is forbidden: User "system:serviceaccount:ns:name" cannot ...`.
REFUSED_USER = re.compile(r'User "([^"]+)" cannot')


@dataclass(frozen=True, slots=True)
class TrustOverrides:
    """What the flags say. A half that is given is never looked up.

    skip_lookup: the ConfigMap is not read at all. tolerate_failure: serve before it could be read, with what the flags gave.
    """

    client_ca: ClientCA | None = None
    request_header: RequestHeaderConfig | None = None
    request_header_ca: bytes = b""
    skip_lookup: bool = False
    tolerate_failure: bool = False

    @property
    def complete(self) -> bool:
        return self.skip_lookup or (self.client_ca is not None and self.request_header is not None)


class ConfigMapSource:
    """`apply` gets every new configuration (`Authenticator.replace`). `run` is its one task; `healthy` its readiness check."""

    def __init__(
        self,
        cluster: Cluster,
        apply: Callable[[AuthenticationConfig], None],
        overrides: TrustOverrides,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._cluster = cluster
        self._apply = apply
        self._overrides = overrides
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._data: Mapping[str, str] = {}
        self._parsed: dict[bytes, Roots] = {}
        self._loaded = False
        self._trouble = "it has not been read yet"
        self._logged = ""

    def override(self, overrides: TrustOverrides) -> None:
        """The files behind the flags were read (again): takes effect at once."""
        self._overrides = overrides
        if overrides.complete or self._loaded or overrides.tolerate_failure:
            self._apply(self._combined(self._data))

    def healthy(self) -> str | None:
        """None when requests can be authenticated as the cluster wants; otherwise what is missing, in one line."""
        if self._loaded or self._overrides.complete or self._overrides.tolerate_failure:
            return None
        return f"waiting for ConfigMap {NAMESPACE}/{NAME}: {self._trouble}"

    async def run(self) -> None:
        """Until cancelled; returns at once where nothing is to be looked up."""
        self.override(self._overrides)
        if self._overrides.complete:
            return
        await follow(
            self._cluster,
            f"/api/v1/namespaces/{NAMESPACE}/configmaps",
            {"fieldSelector": f"metadata.name={NAME}"},
            self._on_state,
            self._on_error,
            clock=self._clock,
            sleep=self._sleep,
            random=self._random,
        )

    def _on_state(self, objects: Mapping[str, Mapping[str, Any]], _: AbstractSet[str]) -> None:
        found = objects.get(f"{NAMESPACE}/{NAME}")
        if found is None:
            self._waiting("it does not exist (kube-apiserver writes it, at its start and every minute)")
            return
        data = found.get("data") or {}
        if self._loaded and data == self._data:
            return
        try:
            config = self._combined(data)
        except (CertificateError, ValueError) as error:
            self._waiting(f"its content can't be used: {error}")
            return
        self._apply(config)
        self._data, self._loaded, self._logged = data, True, ""
        # Generations that are no longer trusted need no longer be known.
        self._parsed = {pem: roots for pem, roots in self._parsed.items() if pem.decode() in data.values()}
        logger.info("authentication follows ConfigMap %s/%s", NAMESPACE, NAME)
        if config.request_header is None:
            logger.warning(
                "ConfigMap %s/%s has no %s: requests through the aggregator can't be authenticated",
                NAMESPACE,
                NAME,
                REQUEST_HEADER_CA,
            )

    def _on_error(self, error: ClusterError | Unreachable | None) -> None:
        if error is None:
            self._logged = ""
        elif isinstance(error, ClusterError) and error.code == 403:
            self._waiting(f"{error.message}; grant it with: {_grant(error.message)}")
        else:
            self._waiting(str(error))

    def _waiting(self, why: str) -> None:
        """One line for each new reason, not one for each attempt."""
        self._trouble = why
        if why == self._logged:
            return
        self._logged = why
        what = "keeping the last good" if self._loaded else "waiting for"
        logger.warning("authentication: %s ConfigMap %s/%s: %s", what, NAMESPACE, NAME, why)

    def _combined(self, data: Mapping[str, str]) -> AuthenticationConfig:
        """The ConfigMap's halves where no flag gives them. Raises CertificateError or ValueError."""
        flags = self._overrides
        client_ca, request_header, request_header_ca = flags.client_ca, flags.request_header, flags.request_header_ca
        if client_ca is None and data.get(CLIENT_CA):
            pem = data[CLIENT_CA].encode()
            client_ca = ClientCA(pem, self._roots(pem))
        if request_header is None and data.get(REQUEST_HEADER_CA):
            request_header_ca = data[REQUEST_HEADER_CA].encode()
            request_header = RequestHeaderConfig.from_configmap(data, self._roots(request_header_ca))
        return AuthenticationConfig(client_ca, request_header, request_header_ca)

    def _roots(self, pem: bytes) -> Roots:
        """The same object for the same bytes: what connections have verified against it stays verified."""
        roots = self._parsed.get(pem)
        if roots is None:
            roots = self._parsed[pem] = Roots.from_pem(pem)
            for text in roots.skipped:
                logger.warning("authentication: ConfigMap %s/%s: %s is left out", NAMESPACE, NAME, text)
        return roots


def _grant(refusal: str) -> str:
    """The command that lets us read the ConfigMap, with our own name where the refusal gives it."""
    match = REFUSED_USER.search(refusal)
    user = match.group(1) if match else ""
    if user.startswith("system:serviceaccount:"):
        subject = f"--serviceaccount={user.removeprefix('system:serviceaccount:')}"
    elif user:
        subject = f"--user={user}"
    else:
        subject = "--serviceaccount=YOUR_NAMESPACE:YOUR_SERVICEACCOUNT"
    return f"kubectl create rolebinding -n {NAMESPACE} aggserver-auth-reader --role={READER_ROLE} {subject}"
