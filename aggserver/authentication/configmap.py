"""The ConfigMap `extension-apiserver-authentication`: the CAs that the hosting cluster trusts, watched while the server runs.

kube-apiserver publishes in it its client CA, its front-proxy CA and the names of the headers that the front proxy sets.
`ConfigMapSource` watches it, passes complete configurations to the authenticator, and keeps the last valid one when the watch
fails or the content is invalid. Until there is a first one, the readiness check fails and the log states the reason once. After
that, requests can still be authenticated, so a failure is a warning in the log and in the check; the server becomes unready only
if the failure lasts (`ready`).
Flags override the client CA and the request-header settings, each as a whole, as upstream.
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

from aggserver.authentication.delegating import AuthenticationConfig, ClientCA, TrustError
from aggserver.authentication.requestheader import RequestHeaderConfig
from aggserver.authentication.x509 import CertificateError, Roots
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.freshness import Freshness
from aggserver.cluster.pacing import Sleep
from aggserver.cluster.problems import Problems
from aggserver.cluster.reflector import Reflector

__all__ = ["ConfigMapSource", "TrustOverrides"]

logger = logging.getLogger(__name__)

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"
_CONFIG_MAP = f"ConfigMap {NAMESPACE}/{NAME}"
READER_ROLE = "extension-apiserver-authentication-reader"

CLIENT_CA = "client-ca-file"
REQUEST_HEADER_CA = "requestheader-client-ca-file"
_NO_FRONT_PROXY = (
    f"{_CONFIG_MAP} has no {REQUEST_HEADER_CA}: requests through the aggregator can't be authenticated until kube-apiserver has "
    "--requestheader-client-ca-file, --proxy-client-cert-file and --proxy-client-key-file"
)

# Finds our user name in the API server's refusal: `... is forbidden: User "system:serviceaccount:ns:name" cannot ...`.
REFUSED_USER = re.compile(r'User "([^"]+)" cannot')


@dataclass(frozen=True, slots=True)
class TrustOverrides:
    """The settings of flags, which take precedence over the ConfigMap.

    skip_lookup: whether the ConfigMap is not read at all. tolerate_failure: whether the server is ready before it was read.
    """

    client_ca: ClientCA | None = None
    request_header: RequestHeaderConfig | None = None
    request_header_ca: bytes = b""
    skip_lookup: bool = False
    tolerate_failure: bool = False

    @property
    def complete(self) -> bool:
        """Whether the ConfigMap is not needed."""
        return self.skip_lookup or (self.client_ca is not None and self.request_header is not None)


class ConfigMapSource:
    """Calls `apply` (`Authenticator.replace`) with every new configuration. `run` is its task, `ready` its readiness check."""

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
        self._data: Mapping[str, str] = {}  # as last seen, valid or not
        self._parsed: dict[bytes, Roots] = {}
        self._loaded = False
        self._freshness = Freshness(clock)
        self._unreachable = "it has not been read yet"
        self._unusable = ""
        self._unusable_files = ""
        self._problems = Problems()

    def override(self, overrides: TrustOverrides) -> None:
        """Apply the CA files that flags name, after they were read again, if they are valid together with the ConfigMap."""
        self._overrides, self._unusable_files = overrides, ""
        if self._serving():
            self._update()

    def keep(self, error: Exception) -> None:
        """Keep the CAs in use, because the files that flags name were read again and are invalid."""
        self._unusable_files = str(error)
        logger.error("authentication: keeping the CAs in use: %s", error)

    def healthy(self) -> str | None:
        """None when requests can be authenticated; otherwise one line about what is missing."""
        return None if self._serving() else f"waiting for {_CONFIG_MAP}: {self._unusable or self._unreachable}"

    def ready(self) -> str | None:
        """For readiness: like `healthy`, but also not None if the watch of the ConfigMap has failed for too long."""
        stale = None if self._overrides.complete else self._freshness.stale()
        return self.healthy() or (f"{stale}: {self.warning()}" if stale else None)

    def warning(self) -> str | None:
        """One line about what is out of date although requests are authenticated, or None."""
        if self._unusable_files:
            return f"keeping the CAs in use: {self._unusable_files}"
        why = self._unusable or ("" if self._overrides.complete else self._unreachable)
        if why and self._serving():
            return f"keeping the last valid {_CONFIG_MAP}: {why}"
        is_missing = self._loaded and self._overrides.request_header is None and not self._data.get(REQUEST_HEADER_CA)
        return _NO_FRONT_PROXY if is_missing else None

    def _serving(self) -> bool:
        return self._loaded or self._overrides.complete or self._overrides.tolerate_failure

    async def run(self) -> None:
        """Watch the ConfigMap until cancelled. Returns at once if the flags make it unnecessary."""
        self.override(self._overrides)
        if self._overrides.complete:
            return
        reflector = Reflector(
            self._cluster,
            f"/api/v1/namespaces/{NAMESPACE}/configmaps",
            {"fieldSelector": f"metadata.name={NAME}"},
            self._on_state,
            self._on_error,
            clock=self._clock,
            sleep=self._sleep,
            random=self._random,
        )
        await reflector.run()

    def _on_state(self, objects: Mapping[str, Mapping[str, Any]], _: AbstractSet[str]) -> None:
        self._freshness.succeeded()
        found = objects.get(f"{NAMESPACE}/{NAME}")
        if found is None:
            self._unreachable = "it does not exist (kube-apiserver writes it at its start and every minute)"
            self._log(self._unreachable)
            return
        self._unreachable = ""
        data = found.get("data") or {}
        if self._loaded and data == self._data:
            return
        self._data = data
        config = self._update(loads=True)
        if config is None:
            return
        logger.info("authentication uses %s", _CONFIG_MAP)
        if config.request_header is None:
            logger.warning("authentication: %s", _NO_FRONT_PROXY)

    def _update(self, *, loads: bool = False) -> AuthenticationConfig | None:
        """Apply flags and ConfigMap together. None if they are invalid; then the last valid configuration stays in use.

        loads: whether the ConfigMap was read just now.
        """
        try:
            config = self._combined(self._data)
        except (CertificateError, TrustError, ValueError) as error:
            self._unusable = f"its content is invalid: {error}"
            self._log(self._unusable)
            return None
        self._loaded = self._loaded or loads
        self._apply(config)
        self._unusable = ""
        self._problems.changed("")
        # Forget the parsed CAs that are no longer in the ConfigMap.
        self._parsed = {pem: roots for pem, roots in self._parsed.items() if pem.decode() in self._data.values()}
        return config

    def _on_error(self, error: ClusterError | Unreachable | None) -> None:
        if error is None:
            self._freshness.succeeded()
            self._unreachable = ""
            self._problems.changed("")
            return
        self._freshness.failed()
        self._unreachable = str(error)
        if isinstance(error, ClusterError) and error.code == 403:
            self._unreachable = f"{error.message}; grant it with: {_grant(error.message)}"
        if not isinstance(error, Unreachable):  # logged once for all watches, see `cluster/outage.py`
            self._log(self._unreachable)

    def _log(self, why: str) -> None:
        """One log line for each new reason, not for each attempt."""
        if self._problems.changed(why):
            kept = "keeping the last valid" if self._loaded else "waiting for"
            logger.warning("authentication: %s %s: %s", kept, _CONFIG_MAP, why)

    def _combined(self, data: Mapping[str, str]) -> AuthenticationConfig:
        """The configuration from the flags, completed from the ConfigMap. Raises CertificateError or ValueError."""
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
        """The parsed CAs. The same object for the same bytes, so that the verification results of connections remain valid."""
        roots = self._parsed.get(pem)
        if roots is None:
            roots = self._parsed[pem] = Roots.from_pem(pem)
            for text in roots.skipped:
                logger.warning("authentication: %s: ignoring %s", _CONFIG_MAP, text)
        return roots


def _grant(refusal: str) -> str:
    """The command that grants us read access to the ConfigMap, with our user name if the refusal contains it."""
    match = REFUSED_USER.search(refusal)
    user = match.group(1) if match else ""
    if user.startswith("system:serviceaccount:"):
        subject = f"--serviceaccount={user.removeprefix('system:serviceaccount:')}"
    elif user:
        subject = f"--user={user}"
    else:
        subject = "--serviceaccount=YOUR_NAMESPACE:YOUR_SERVICEACCOUNT"
    return f"kubectl create rolebinding -n {NAMESPACE} aggserver-auth-reader --role={READER_ROLE} {subject}"
