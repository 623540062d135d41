"""Whether kube-apiserver reaches the server: APIServices and their conditions, Service, endpoints, network path. Pure.

Source: the reasons of the condition Available are those of k8s.io/kube-aggregator pkg/controllers/status/remote, and texts of
errors those of Go's net, crypto/x509 and net/http, v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aggserver.commands.doctor.finding import Finding, Severity, listed
from aggserver.commands.doctor.found import InstallationFacts, Probe, condition, name, selects
from aggserver.meta.json_types import JSONMapping

__all__ = ["checks"]

# An HTTP status by which a server refuses to know or to admit its client.
_REFUSED = re.compile(r"\b(401|403)\b")

# The text of an error -> what it means, and what mends it. The first that is in the text counts.
_NETWORK = (
    (
        "No agent available",
        "Konnectivity has no agent, by which kube-apiserver reaches pods",
        "kubectl get pods --namespace kube-system --selector k8s-app=konnectivity-agent",
    ),
    (
        "x509: certificate signed by unknown authority",
        "the caBundle of the APIService does not have the CA that signed the server's certificate",
        "kubectl get apiservice {api_service} --show-managed-fields --output yaml",
    ),
    (
        "certificate has expired or is not yet valid",
        "the server's certificate is not valid now",
        "kubectl rollout restart deployment/{name} --namespace {namespace}",
    ),
    (
        "x509: certificate is valid for",
        "the server's certificate is for other names than {name}.{namespace}.svc",
        "kubectl rollout restart deployment/{name} --namespace {namespace}",
    ),
    (
        "connection refused",
        "nothing listens there: the server has ended, or listens on another port",
        "kubectl logs deployment/{name} --namespace {namespace} --tail 50",
    ),
    (
        "connection reset by peer",
        "the server has ended the connection: it was ending, or something between the two did",
        "kubectl get pods --namespace {namespace}",
    ),
    (
        "EOF",
        "the server has ended the connection: it was ending, or something between the two did",
        "kubectl get pods --namespace {namespace}",
    ),
    (
        "no such host",
        "the name that the Service has as externalName can't be resolved",
        "kubectl get service {name} --namespace {namespace} --output yaml",
    ),
    (
        "no route to host",
        "the control plane does not reach the pods: their port must be open to it in firewalls and network policies",
        "kubectl get networkpolicies --namespace {namespace} --output yaml",
    ),
    (
        "i/o timeout",
        "the control plane does not reach the pods: their port must be open to it in firewalls and network policies",
        "kubectl get networkpolicies --namespace {namespace} --output yaml",
    ),
    (
        "context deadline exceeded",
        "no answer in time: a firewall or network policy drops the packets, or the server hangs",
        "kubectl logs deployment/{name} --namespace {namespace} --tail 50",
    ),
)


def checks(facts: InstallationFacts) -> Iterator[Finding]:
    yield from _service(facts)
    yield from _endpoints(facts)
    yield from _api_services(facts)
    yield from _readiness(facts)


# --- the Service ---


def _service(facts: InstallationFacts) -> Iterator[Finding]:
    namespace, where = facts.service.namespace, f"Service {facts.where}"
    if not facts.knows("service"):
        return
    if not facts.has_namespace:
        remove = "kubectl delete apiservices --selector app.kubernetes.io/managed-by=aggserver"
        why = "the server was removed, and its APIServices were not: meanwhile no namespace of the cluster can be deleted"
        yield Finding("namespace", Severity.ERROR, f"Namespace {namespace}", "it does not exist", why, remove)
        return
    if facts.service_object is None:
        why = "APIServices lead to it, so kube-apiserver answers requests for their groups with 503"
        yield Finding("service", Severity.ERROR, where, "it does not exist", why, facts.applied("service.yaml"))
        return
    spec = facts.service_object["spec"]
    if spec.get("type") == "ExternalName":
        return
    for each in facts.ours():
        port = each["spec"]["service"].get("port") or 443
        if all(one.get("port") != port for one in spec.get("ports") or ()):
            has = ", ".join(str(one.get("port")) for one in spec.get("ports") or ()) or "none"
            yield Finding(
                "service-port",
                Severity.ERROR,
                where,
                f"it has no port {port}, which APIService {name(each)} names",
                f"its ports are {has}; --service-port of the server must be one of them",
                facts.applied("service.yaml"),
            )
            break
    template = _template(facts)
    if facts.has_pods and template is not None:
        yield from _towards_pods(facts, spec, template)


def _towards_pods(facts: InstallationFacts, spec: JSONMapping, template: JSONMapping) -> Iterator[Finding]:
    where = f"Service {facts.where}"
    has = (template.get("metadata") or {}).get("labels") or {}
    if not selects(spec["selector"], has):
        wanted = ",".join(f"{key}={value}" for key, value in sorted(spec["selector"].items()))
        yield Finding(
            "service-selector",
            Severity.ERROR,
            where,
            f"its selector {wanted} does not match the pods of Deployment {name(facts.deployment or {})}",
            f"these have the labels {','.join(f'{key}={value}' for key, value in sorted(has.items())) or 'none'}",
            facts.applied("service.yaml"),
        )
        return
    ports = [port for each in template["spec"].get("containers") or () for port in each.get("ports") or ()]
    for each in spec.get("ports") or ():
        target = each.get("targetPort", each.get("port"))
        if isinstance(target, str) and all(port.get("name") != target for port in ports):
            yield Finding(
                "service-target-port",
                Severity.ERROR,
                where,
                f"its port {each.get('port')} leads to the container's port {target}, and no container has one of that name",
                "so its endpoints have no port",
                facts.applied("service.yaml", "deployment.yaml"),
            )


def _template(facts: InstallationFacts) -> JSONMapping | None:
    return facts.deployment["spec"]["template"] if facts.deployment is not None else None


# --- endpoints ---


def _endpoints(facts: InstallationFacts) -> Iterator[Finding]:
    """Of a Service whose pods are ready: why there are none is for `pods.py`."""
    if not facts.has_pods or not facts.knows("endpoints", "pods"):
        return
    ready = [each for each in facts.pods if (condition(each, "Ready") or {}).get("status") == "True"]
    endpoints = [each for one in facts.slices for each in one.get("endpoints") or ()]
    if ready and not any((each.get("conditions") or {}).get("ready") is not False for each in endpoints):
        yield Finding(
            "endpoints",
            Severity.ERROR,
            f"Service {facts.where}",
            "it has no ready endpoints, although pods are ready",
            f"ready are {listed(map(name, ready))}; the EndpointSlices are kube-controller-manager's, which may be away",
            f"kubectl get endpointslices --namespace {facts.service.namespace} "
            f"--selector kubernetes.io/service-name={facts.service.name}",
        )


# --- APIServices ---


def _api_services(facts: InstallationFacts) -> Iterator[Finding]:
    alike: dict[tuple[str, str], list[str]] = {}
    for each in facts.ours():
        said = condition(each, "Available")
        probe = facts.probes.get(name(each))
        if said is None or said["status"] != "True":
            reason = str((said or {}).get("reason") or "no condition")
            alike.setdefault((reason, _said(said, probe)), []).append(name(each))
        elif probe is not None and not probe.is_answered:
            alike.setdefault(("Available", str(probe)), []).append(name(each))
        if each["spec"].get("insecureSkipTLSVerify"):
            yield Finding(
                "api-service-insecure",
                Severity.WARNING,
                f"APIService {name(each)}",
                "kube-apiserver does not verify the server's certificate: insecureSkipTLSVerify is true",
                "somebody else has set it; the server takes it back while it runs",
                f"kubectl get apiservice {name(each)} --show-managed-fields --output yaml",
            )
    for (reason, text), names in alike.items():
        yield _unavailable(facts, reason, text, names)


def _said(said: JSONMapping | None, probe: Probe | None) -> str:
    """The condition's message, and what a request says now. Addresses in messages differ by group-version, so of several
    APIServices with one cause each would be a finding of its own: only the end of a message is kept.
    """
    message = str((said or {}).get("message") or "kube-apiserver has not looked at it yet")
    _, found, cause = message.partition('": ')
    if "bad status from " in message:
        found, cause = "yes", f"bad status {message.rpartition(': ')[2]}"
    parts = [cause if found else message]
    if probe is not None and not probe.is_answered and str(probe) not in message:
        parts.append(f"a request now: {probe}")
    return "; ".join(parts)


def _unavailable(facts: InstallationFacts, reason: str, text: str, names: Sequence[str]) -> Finding:
    why, mend = _cause(facts, reason, text, names[0])
    what = "requests fail although it counts as available" if reason == "Available" else f"it is not available ({reason})"
    what += f": {text}"
    plural = "s" if len(names) > 1 else ""
    return Finding("api-service", Severity.ERROR, f"APIService{plural} {listed(names)}", what, why, mend)


def _cause(facts: InstallationFacts, reason: str, text: str, api_service: str) -> tuple[str, str]:
    """Why an APIService is unavailable, and what to do."""
    words: Mapping[str, Any] = {
        "api_service": api_service,
        "namespace": facts.service.namespace,
        "name": name(facts.deployment) if facts.deployment is not None else facts.service.name,
    }
    logs = "kubectl logs deployment/{name} --namespace {namespace} --tail 50".format(**words)
    if _REFUSED.search(text):
        return (
            "the server answers, and does not take the request for the aggregator's. kube-apiserver needs "
            "--proxy-client-cert-file and --proxy-client-key-file, and --requestheader-client-ca-file with the CA that signed "
            "it; or the service account may not create SubjectAccessReviews",
            logs,
        )
    for known, why, mend in _NETWORK:
        if known in text:
            return _with_policies(facts, known, why.format(**words)), mend.format(**words)
    match reason:
        case "ServiceNotFound":
            return "the Service does not exist", facts.applied("service.yaml")
        case "ServicePortError":
            return "the Service does not have the port that the APIService names", facts.applied("service.yaml")
        case "MissingEndpoints" | "EndpointsNotFound":
            return "no pod behind the Service is ready", logs
        case "no condition":
            return "kube-apiserver looks at each APIService every 30 seconds", f"kubectl get apiservice {api_service}"
    return "the server's log, or kube-apiserver's, says more", logs


def _with_policies(facts: InstallationFacts, known: str, why: str) -> str:
    """Names the NetworkPolicies that may keep kube-apiserver out, where its packets get no answer."""
    if known not in ("i/o timeout", "context deadline exceeded", "no route to host") or facts.deployment is None:
        return why
    has = (facts.deployment["spec"]["template"].get("metadata") or {}).get("labels") or {}
    closed = []
    for each in facts.network_policies:
        selector = (each["spec"].get("podSelector") or {}).get("matchLabels") or {}
        rules = each["spec"].get("ingress") or ()
        applies = not selector or selects(selector, has)
        if applies and "Ingress" in (each["spec"].get("policyTypes") or ("Ingress",)) and not any(_is_open(r) for r in rules):
            closed.append(name(each))
    return f"{why}; of these, NetworkPolicy {listed(closed)} lets in only certain clients" if closed else why


def _is_open(rule: JSONMapping) -> bool:
    return not rule.get("from")


# --- what the server says of itself ---


def _readiness(facts: InstallationFacts) -> Iterator[Finding]:
    if facts.direct is None or not facts.direct.status:
        return
    lines = facts.direct.text.splitlines()
    failed = [line[3:].partition(" ")[0] for line in lines if line.startswith("[-]")]
    warned = [line[3:].partition(" ")[0] for line in lines if line.startswith("[+]") and "with a warning" in line]
    deployment = name(facts.deployment) if facts.deployment is not None else facts.service.name
    logs = f"kubectl logs deployment/{deployment} --namespace {facts.service.namespace} --tail 50"
    if failed:
        why = "the log says why, in the lines with `readyz check failed`"
        yield Finding(
            "readiness", Severity.ERROR, f"Service {facts.where}", f"the server is not ready: {', '.join(failed)}", why, logs
        )
    for each in warned:
        yield Finding(
            "readiness-warning",
            Severity.WARNING,
            f"Service {facts.where}",
            f"the server works, but its check {each} has a warning",
            f"the log says which; so does its own path, to those who may read it: /readyz/{each}",
            logs,
        )
