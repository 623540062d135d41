"""Guard: the webhook configuration by which the host refuses writes of adopted resources, with a 503 that clients wait out.

While the objects of a definition change places, a write that the host still accepts would be lost. So the host has a
ValidatingWebhookConfiguration that leads to this server, which refuses every review. kube-apiserver passes code and Retry-After
on to the client, and client-go repeats the request by itself. Requests of this server's own account are exempt by a
matchCondition, so that kube-apiserver does not call the webhook for them at all.

Each kube-apiserver follows configurations by a watch, in its own time. A probe shows whether it has the present configuration: a
dry-run create of a ConfigMap, for which the configuration has a second webhook, named after the configuration's generation. A
kube-apiserver applies a configuration as a whole, with the same admission for ConfigMaps as for custom resources. So once a
kube-apiserver names this webhook in its refusal of a probe, it refuses the writes, too. Only writes that it had let pass before
may still be on their way to its etcd.
Source: k8s.io/apiserver pkg/admission/configuration/validating_webhook_manager.go, pkg/admission/plugin/webhook/errors, v0.36.3;
k8s.io/kubernetes pkg/controlplane/apiserver/apiextensions.go, v1.36.3.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aggserver.admission.cluster_sources import GUARD_LABEL
from aggserver.apiextensions.api_service import MANAGED_BY, MANAGED_BY_LABEL, Service
from aggserver.cluster import Cluster, ClusterError, Unreachable, find
from aggserver.cluster.pacing import Sleep
from aggserver.errors import AggserverError
from aggserver.meta.json_types import JSONObject

__all__ = ["PATH", "WRITES", "Guard", "GuardError", "configuration", "exempting", "guard_name", "own_name"]

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SELF_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

# Where this server answers the webhook.
PATH = "/aggserver/guard"

WRITES = "writes.guard.aggserver.io"
PROBE = "probe.guard.aggserver.io"
# The value is the name of the Service: it distinguishes the probes of two servers in one namespace.
PROBE_LABEL = "aggserver.io/guard-probe"

# How long kube-apiserver waits for the webhook, which takes a millisecond. After that the write fails with 500, not with 503.
WEBHOOK_SECONDS = 5
# How often a write of the configuration is repeated when somebody else has changed it meanwhile.
ATTEMPTS = 5
# The pause between two probes of one kube-apiserver. A watch delivers a configuration within milliseconds.
POLL_SECONDS = 0.005
PROBE_SECONDS = 5.0
LIMIT_SECONDS = 15.0

_NOT_YET = "its probe was let pass: it has no such webhook yet, or it can't reach this server's Service"
_REFUSED_BY = re.compile(rf'admission webhook "([0-9a-z]+)\.{re.escape(PROBE)}" denied the request')


class GuardError(AggserverError):
    """A kube-apiserver did not apply the guard in time. The text names it and says what it answers."""


# --- decisions ---


def guard_name(service: Service) -> str:
    """The configuration's name, which no other server has: names of namespaces and Services contain no dots."""
    return f"aggserver-guard.{service.namespace}.{service.name}"


def configuration(
    resources: Iterable[tuple[str, str]], generation: str, service: Service, ca_bundle: bytes, exempt: str
) -> JSONObject:
    """The wanted configuration. All defaults of the API are written out, so that it can be compared with the host's.

    resources: (group, plural). generation: letters and digits in lower case. ca_bundle: PEM. exempt: a user's name.
    """
    client = {
        "service": {"namespace": service.namespace, "name": service.name, "port": service.port, "path": PATH},
        "caBundle": base64.b64encode(ca_bundle).decode(),
    }
    common = {
        "clientConfig": client,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": WEBHOOK_SECONDS,
        # The answer does not depend on the object, so kube-apiserver need not convert it.
        "matchPolicy": "Exact",
    }
    by_group: dict[str, list[str]] = {}
    for group, plural in sorted(set(resources)):
        by_group.setdefault(group, []).extend((plural, f"{plural}/*"))
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": guard_name(service), "labels": {MANAGED_BY_LABEL: MANAGED_BY, GUARD_LABEL: "true"}},
        "webhooks": [
            {
                "name": WRITES,
                **common,
                "rules": [_rule(group, names, ["CREATE", "UPDATE", "DELETE"], "*") for group, names in by_group.items()],
                "failurePolicy": "Fail",
                "namespaceSelector": {},
                "objectSelector": {},
                "matchConditions": [_exemption("not-aggserver", exempt)],
            },
            {
                "name": f"{generation}.{PROBE}",
                **common,
                "rules": [_rule("", ["configmaps"], ["CREATE"], "Namespaced")],
                "failurePolicy": "Ignore",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": service.namespace}},
                "objectSelector": {"matchLabels": {PROBE_LABEL: service.name}},
            },
        ],
    }


def exempting(found: JSONObject, user: str) -> JSONObject:
    """The configuration, changed to let writes of one more user pass. For the guard of a lost server, until it is removed."""
    condition = _exemption("not-release", user)
    return {
        **found,
        "webhooks": [
            {**each, "matchConditions": [c for c in each["matchConditions"] if c["name"] != condition["name"]] + [condition]}
            if each["name"] == WRITES
            else each
            for each in found["webhooks"]
        ],
    }


def _exemption(name: str, user: str) -> JSONObject:
    return {"name": name, "expression": f"request.userInfo.username != {_cel_string(user)}"}


def _rule(group: str, resources: list[str], operations: list[str], scope: str) -> JSONObject:
    return {"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": resources, "scope": scope}


def _cel_string(text: str) -> str:
    """A string literal of CEL, which has the escapes of JSON except surrogates."""
    return json.dumps(text, ensure_ascii=False)


def _generation(found: Mapping[str, Any]) -> str:
    """The generation of a configuration in the host; '' if it has none, since this module did not write it."""
    for webhook in found.get("webhooks") or ():
        generation, _, rest = webhook["name"].partition(".")
        if rest == PROBE:
            return str(generation)
    return ""


def _is_as_wanted(found: JSONObject, wanted: JSONObject) -> bool:
    labels: Mapping[str, str] = found["metadata"].get("labels") or {}
    return bool(found["webhooks"] == wanted["webhooks"]) and labels.items() >= wanted["metadata"]["labels"].items()


def _trouble(refusal: ClusterError | None, generation: str) -> str:
    """Why a kube-apiserver's answer to the probe shows that it does not apply a generation yet; '' if it applies it.

    refusal: None if it has let the probe pass. generation: '' for no guard.
    """
    if refusal is None:
        return _NOT_YET if generation else ""
    match = _REFUSED_BY.search(refusal.message)
    if match is None:
        return f"it refuses the probe for another reason: {refusal}"
    if match.group(1) == generation:
        return ""
    return "it still applies an earlier guard"


# --- the host ---


async def own_name(cluster: Cluster) -> str:
    """The user name of this server in the cluster. Raises ClusterError and Unreachable."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found = await cluster.request("POST", SELF_REVIEWS, body=review)
    return str(found["status"]["userInfo"]["username"])


class Guard:
    """The guard of one installation, whose Service the webhooks lead to. `set` and `seen` may be repeated at any time.

    ca_bundle: returns the PEM of the CA that signed the Service's certificate. limit_seconds: how long `seen` waits. clock:
    monotonic, in seconds. new_generation: returns a new name each time, of letters and digits in lower case.
    """

    def __init__(
        self,
        cluster: Cluster,
        service: Service,
        ca_bundle: Callable[[], bytes],
        *,
        limit_seconds: float = LIMIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        new_generation: Callable[[], str] = lambda: secrets.token_hex(6),
    ) -> None:
        self._cluster = cluster
        self._service = service
        self._ca_bundle = ca_bundle
        self._limit_seconds = limit_seconds
        self._clock = clock
        self._sleep = sleep
        self._new_generation = new_generation
        self._path = f"{CONFIGURATIONS}/{guard_name(service)}"
        self._lock = asyncio.Lock()
        self._generation = ""  # '': no guard

    async def set(self, resources: Iterable[tuple[str, str]]) -> None:
        """Let the host refuse writes of exactly these (group, plural). If there are none, remove the configuration.

        A configuration that is as wanted is not written again, not even after a restart. Raises ClusterError and Unreachable;
        then the call must be repeated, since the configuration may have been written nevertheless.
        """
        wanted = frozenset(resources)
        async with self._lock:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._generation = await self._write(wanted)
                    return
                except ClusterError as error:
                    # 404: it was there, and somebody has deleted it meanwhile.
                    if error.code not in (404, 409) or attempt == ATTEMPTS:
                        raise

    async def seen(self, clusters: Sequence[Cluster]) -> None:
        """Wait until each of the kube-apiservers applies what was last `set`: the guard, or that there is none.

        Raises GuardError if one does not within the time limit.
        """
        ends = self._clock() + self._limit_seconds
        async with asyncio.TaskGroup() as tasks:
            waits = [tasks.create_task(self._until_applied(cluster, self._generation, ends)) for cluster in clusters]
        late = [f"{cluster.server}: {wait.result()}" for cluster, wait in zip(clusters, waits, strict=True) if wait.result()]
        if late:
            what = "is in force" if self._generation else "is gone"
            raise GuardError(
                f"not every kube-apiserver shows within {self._limit_seconds:g} s that the guard {what}: {'; '.join(late)}"
            )

    async def _write(self, resources: frozenset[tuple[str, str]]) -> str:
        """Write the configuration, if it is not as wanted. Returns the generation that the host has then."""
        found = await self._found()
        if not resources:
            if found is not None:
                precondition = {"uid": found["metadata"]["uid"]}
                body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": precondition}
                await self._cluster.request("DELETE", self._path, body=body)
            return ""
        exempt = await own_name(self._cluster)
        present = _generation(found) if found is not None else ""
        if found is not None and present and _is_as_wanted(found, self._wanted(resources, present, exempt)):
            return present
        generation = self._new_generation()
        wanted = self._wanted(resources, generation, exempt)
        if found is None:
            await self._cluster.request("POST", CONFIGURATIONS, body=wanted)
        else:
            labels = {**(found["metadata"].get("labels") or {}), **wanted["metadata"]["labels"]}
            metadata = {**found["metadata"], "labels": labels}
            await self._cluster.request("PUT", self._path, body={**wanted, "metadata": metadata})
        return generation

    async def _found(self) -> JSONObject | None:
        return await find(self._cluster, self._path)

    def _wanted(self, resources: frozenset[tuple[str, str]], generation: str, exempt: str) -> JSONObject:
        return configuration(resources, generation, self._service, self._ca_bundle(), exempt)

    async def _until_applied(self, cluster: Cluster, generation: str, ends: float) -> str:
        """Wait until the kube-apiserver applies the generation. Returns '' then, or why it does not when the time is over."""
        while True:
            trouble = await self._probe(cluster, generation)
            if not trouble or self._clock() >= ends:
                return trouble
            await self._sleep(POLL_SECONDS)

    async def _probe(self, cluster: Cluster, generation: str) -> str:
        probe = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"generateName": "aggserver-guard-probe-", "labels": {PROBE_LABEL: self._service.name}},
        }
        path = f"/api/v1/namespaces/{self._service.namespace}/configmaps"
        try:
            await cluster.request("POST", path, query={"dryRun": "All"}, body=probe, timeout=PROBE_SECONDS)
        except Unreachable as error:
            return str(error)
        except ClusterError as error:
            return _trouble(error, generation)
        return _trouble(None, generation)
