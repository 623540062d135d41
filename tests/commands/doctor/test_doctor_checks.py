"""The checks of `aggserver doctor`, over recorded objects: what kubelets, clocks and networks do, which no test here has.

tests/integration/test_doctor.py has the others, at a real control plane.
"""

from __future__ import annotations

import ast
import base64
import copy
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aggserver.apiextensions.api_service import Service, api_service
from aggserver.certificates.issuing import KeyPair, issue_serving, new_ca
from aggserver.commands.adopt.plan import HostAccess
from aggserver.commands.doctor import rights
from aggserver.commands.doctor.arguments import options_of
from aggserver.commands.doctor.command import diagnose
from aggserver.commands.doctor.finding import Finding, Severity
from aggserver.commands.doctor.found import InstallationFacts, Probe
from aggserver.commands.doctor.report import findings_json, findings_text
from aggserver.meta import codec
from aggserver.meta.times import format_time

ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "manifests"
NAMESPACE, SERVICE = "aggserver-system", Service("aggserver-system", "aggserver")
HOST = "aggserver.aggserver-system.svc"
NOW = 1_700_000_000.0
DAY = 86400
CA = new_ca("aggserver-ca", NOW)

Object = dict[str, Any]


def manifest(name: str) -> Object:
    found: Object = codec.decode_yaml((MANIFESTS / name).read_bytes())
    return found


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def serving(ca: KeyPair = CA, host: str = HOST, start: float = NOW, days: int = 365) -> Object:
    return {"data": {"tls.crt": encoded(issue_serving(ca, [host], [], start, days).cert_pem)}}


def registered(available: Object | None = None, **spec: Any) -> Object:
    found = api_service("stable.example.com", "v1", 100, SERVICE, CA.cert_pem)
    found["spec"].update(spec)
    condition = available or {"status": "True", "reason": "Passed", "message": "all checks passed"}
    return {**found, "status": {"conditions": [{"type": "Available", **condition}]}}


def failed(message: str, reason: str = "FailedDiscoveryCheck") -> Object:
    url = "https://10.0.0.7:443/apis/stable.example.com/v1"
    text = f'failing or missing response from {url}: Get "{url}": {message}'
    return registered({"status": "False", "reason": reason, "message": text})


DEPLOYMENT = manifest("deployment.yaml")
LABELS = {"app.kubernetes.io/name": "aggserver"}
RUNNING = {"startedAt": format_time(NOW - 7200)}
OPTIONS, _ = options_of(DEPLOYMENT["spec"]["template"], NAMESPACE)


def pod(name: str = "aggserver-1", *, ready: bool = True, image: str = "aggserver:0.1.0", **state: Any) -> Object:
    """state: of its container, beside `running`."""
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True" if ready else "False"}]
    container = {"name": "aggserver", "image": image, "restartCount": 0, "state": {"running": RUNNING}, **state}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": LABELS},
        "spec": {"containers": [{"name": "aggserver", "image": image}]},
        "status": {"conditions": conditions, "containerStatuses": [container]},
    }


def waiting(reason: str, message: str = "", **more: Any) -> Object:
    return pod(ready=False, state={"waiting": {"reason": reason, "message": message}}, **more)


def ended(code: int, reason: str = "Error", *, at: float = NOW - 60) -> Object:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": format_time(at)}}


CONFIG_MAP = {
    "data": {
        "client-ca-file": new_ca("kubernetes", NOW).cert_pem.decode(),
        "requestheader-client-ca-file": new_ca("front-proxy", NOW).cert_pem.decode(),
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
}

WELL = InstallationFacts(
    service=SERVICE,
    now=NOW,
    kubernetes="v1.36.3",
    service_object=manifest("service.yaml"),
    slices=[{"endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": True}}]}],
    deployment={**DEPLOYMENT, "status": {"updatedReplicas": 1}},
    pods=[pod()],
    options=OPTIONS,
    api_services=[registered()],
    probes={"v1.stable.example.com": Probe(200, "{}")},
    direct=Probe(200, "[+]ping ok\n[+]authentication ok\nreadyz check passed\n"),
    ahead=0.4,
    authentication=CONFIG_MAP,
    secret_name="aggserver-certificates",
    secret=serving(),
    grants=rights.grants(),
    policy=manifest("api-service-policy.yaml"),
    binding=manifest("api-service-policy-binding.yaml"),
)


def with_data(**data: str | None) -> Object:
    whole = {**CONFIG_MAP["data"], **{key.replace("_", "-"): value for key, value in data.items()}}
    return {"data": {key: value for key, value in whole.items() if value is not None}}


def deployed(change: Callable[[Object], Any]) -> Object:
    found = copy.deepcopy(dict(WELL.deployment or {}))
    change(found)
    return found


def test_nothing_is_wrong() -> None:
    assert diagnose(WELL) == []
    assert OPTIONS is not None
    assert OPTIONS.service_namespace == NAMESPACE


OLD_CA = new_ca("front-proxy", NOW - 4000 * DAY)
NEW_CA = new_ca("front-proxy", NOW + 10 * DAY)
READ = "metadata"

# What is changed -> the check, its severity, and words of the finding.
CASES: dict[str, tuple[dict[str, Any], str, Severity, list[str]]] = {
    "the namespace is gone": (
        {"has_namespace": False, "service_object": None, "deployment": None, "pods": []},
        "namespace",
        Severity.ERROR,
        ["kubectl delete apiservices --selector app.kubernetes.io/managed-by=aggserver"],
    ),
    # Network.
    "a firewall": (
        {"api_services": [failed("dial tcp 10.0.0.7:443: i/o timeout")]},
        "api-service",
        Severity.ERROR,
        ["must be open to it in firewalls", "kubectl get networkpolicies"],
    ),
    "a network policy": (
        {
            "api_services": [failed("context deadline exceeded")],
            "network_policies": [
                {"metadata": {"name": "own"}, "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}},
                {"metadata": {"name": "open"}, "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 6443}]}]}},
                {
                    "metadata": {"name": "others"},
                    "spec": {"podSelector": {"matchLabels": {"app": "x"}}, "ingress": []},
                },
            ],
        },
        "api-service",
        Severity.ERROR,
        ["NetworkPolicy own lets in only certain clients"],
    ),
    "Konnectivity without an agent": (
        {"api_services": [failed("No agent available")]},
        "api-service",
        Severity.ERROR,
        ["--selector k8s-app=konnectivity-agent"],
    ),
    "another CA in the way": (
        {"api_services": [failed("tls: failed to verify certificate: x509: certificate signed by unknown authority")]},
        "api-service",
        Severity.ERROR,
        ["the caBundle of the APIService does not have the CA", "--show-managed-fields"],
    ),
    "an aggregator that the server does not know": (
        {"probes": {"v1.stable.example.com": Probe(401, "Unauthorized")}},
        "api-service",
        Severity.ERROR,
        ["requests fail although it counts as available: 401: Unauthorized", "--proxy-client-cert-file"],
    ),
    "a connection that was ended": (
        {"api_services": [failed("EOF")]},
        "api-service",
        Severity.ERROR,
        ["the server has ended the connection"],
    ),
    "a port that has 403 in it": (
        {"api_services": [failed("dial tcp 10.0.0.7:40301: connect: connection refused")]},
        "api-service",
        Severity.ERROR,
        ["nothing listens there"],
    ),
    "a status of the server": (
        {
            "api_services": [
                registered(
                    {
                        "status": "False",
                        "reason": "FailedDiscoveryCheck",
                        "message": "failing or missing response from https://10.0.0.7:443/apis/a/v1: bad status from "
                        "https://10.0.0.7:443/apis/a/v1: 403",
                    }
                )
            ]
        },
        "api-service",
        Severity.ERROR,
        ["(FailedDiscoveryCheck): bad status 403", "the service account may not create SubjectAccessReviews"],
    ),
    "no answer": (
        {"probes": {"v1.stable.example.com": Probe(0, "no answer within 10 s")}},
        "api-service",
        Severity.ERROR,
        ["although it counts as available: no answer within 10 s"],
    ),
    "no endpoints": (
        {"slices": [{"endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": False}}]}]},
        "endpoints",
        Severity.ERROR,
        ["although pods are ready"],
    ),
    "a check that fails": (
        {"direct": Probe(500, "[+]ping ok\n[-]authentication failed: reason withheld\nreadyz check failed\n")},
        "readiness",
        Severity.ERROR,
        ["the server is not ready: authentication"],
    ),
    "a check with a warning": (
        {"direct": Probe(200, "[+]adoption ok, with a warning: reason withheld\nreadyz check passed\n")},
        "readiness-warning",
        Severity.WARNING,
        ["its check adoption has a warning", "/readyz/adoption"],
    ),
    # Pods.
    "a configuration that is not there": (
        {"pods": [waiting("CreateContainerConfigError", 'secret "aggserver-etcd" not found')]},
        "pod-configuration",
        Severity.ERROR,
        ['secret "aggserver-etcd" not found'],
    ),
    "an image that is not there": (
        {"pods": [waiting("ErrImagePull", "not found")]},
        "pod-image",
        Severity.ERROR,
        ["aggserver:0.1.0 can't be pulled (ErrImagePull): not found", "kubectl set image"],
    ),
    "an option that is wrong": (
        {
            "pods": [waiting("CrashLoopBackOff", lastState=ended(2), restartCount=4)],
            "logs": {"aggserver-1": ["aggserver: --secure-port: must be a whole number, 0 or more"]},
        },
        "pod-restarts",
        Severity.ERROR,
        ["exit status 2", "an option is wrong; its last log lines: aggserver: --secure-port", "--previous"],
    ),
    "a liveness probe that fails": (
        {"pods": [waiting("CrashLoopBackOff", lastState=ended(137), restartCount=4)]},
        "pod-restarts",
        Severity.ERROR,
        ["exit status 137", "its liveness probe failed"],
    ),
    "too little memory": (
        {"pods": [pod(lastState=ended(137, "OOMKilled"), restartCount=3)]},
        "pod-memory",
        Severity.WARNING,
        ["restarted 3 times", "out of memory", "--limits memory=2Gi"],
    ),
    "a volume that can't be mounted": (
        {
            "pods": [waiting("ContainerCreating")],
            "events": [
                {"involvedObject": {"name": "other"}, "reason": "FailedMount", "message": "no"},
                {"involvedObject": {"name": "aggserver-1"}, "reason": "FailedMount", "message": "MountVolume.SetUp failed"},
            ],
        },
        "pod-volumes",
        Severity.ERROR,
        ["MountVolume.SetUp failed", "kubectl describe pod aggserver-1"],
    ),
    "a volume that is not bound": (
        {
            "pods": [
                {
                    **pod(),
                    "status": {
                        "conditions": [
                            {
                                "type": "PodScheduled",
                                "status": "False",
                                "reason": "Unschedulable",
                                "message": "pod has unbound immediate PersistentVolumeClaims",
                            }
                        ]
                    },
                }
            ]
        },
        "pod-pending",
        Severity.ERROR,
        ["unbound immediate PersistentVolumeClaims", "kubectl describe pvc"],
    ),
    "a pod that is not ready": (
        {"pods": [pod(ready=False)], "logs": {"aggserver-1": ["a", "readyz check failed: admission: forbidden"]}},
        "pod-not-ready",
        Severity.ERROR,
        ["a | readyz check failed: admission: forbidden"],
    ),
    "a pod on a node that is gone": (
        {
            "pods": [
                pod(),
                {**pod("old"), "metadata": {**pod("old")["metadata"], "deletionTimestamp": format_time(NOW - 900)}},
            ]
        },
        "pod-terminating",
        Severity.WARNING,
        ["it should have ended 900 s ago", "kubectl delete pod old"],
    ),
    "replicas of two versions": (
        {"pods": [pod(), pod("other", image="aggserver:0.0.9")]},
        "pod-versions",
        Severity.WARNING,
        ["aggserver:0.0.9"],
    ),
    "pods that are refused": (
        {
            "deployment": deployed(
                lambda found: found["status"].update(
                    conditions=[{"type": "ReplicaFailure", "status": "True", "message": 'violates PodSecurity "restricted"'}]
                )
            ),
            "pods": [],
        },
        "deployment-pods",
        Severity.ERROR,
        ['violates PodSecurity "restricted"'],
    ),
    "a flag of another version": (
        {"options": None, "options_problem": "unrecognized arguments: --new"},
        "arguments",
        Severity.ERROR,
        ["unrecognized arguments: --new", "of another version than this command"],
    ),
    # Trust.
    "no ConfigMap": ({"authentication": None}, "authentication", Severity.ERROR, ["it does not exist"]),
    "no front proxy": (
        {"authentication": with_data(requestheader_client_ca_file=None)},
        "authentication-front-proxy",
        Severity.ERROR,
        ["it has no requestheader-client-ca-file", "--requestheader-client-ca-file"],
    ),
    "no header with the user": (
        {"authentication": with_data(requestheader_username_headers="[]")},
        "authentication-front-proxy",
        Severity.ERROR,
        ["requestheader-username-headers is empty"],
    ),
    "allowed names that are no list": (
        {"authentication": with_data(requestheader_allowed_names="front-proxy-client")},
        "authentication-front-proxy",
        Severity.ERROR,
        ["requestheader-allowed-names is no list of strings in JSON"],
    ),
    "a front proxy's CA that has expired": (
        {"authentication": with_data(requestheader_client_ca_file=OLD_CA.cert_pem.decode())},
        "authentication-ca",
        Severity.ERROR,
        ["requestheader-client-ca-file: CN=front-proxy has expired at"],
    ),
    "a front proxy's CA of the future": (
        {"authentication": with_data(requestheader_client_ca_file=NEW_CA.cert_pem.decode())},
        "authentication-ca",
        Severity.ERROR,
        ["is not valid before", f"it is {format_time(NOW)} at kube-apiserver"],
    ),
    "a clients' CA that is none": (
        {"authentication": with_data(client_ca_file="nothing")},
        "authentication-ca",
        Severity.WARNING,
        ["client-ca-file can't be read"],
    ),
    "a clock ahead": ({"ahead": 90.0}, "clock", Severity.WARNING, ["90 s ahead of kube-apiserver's"]),
    "a clock behind": ({"ahead": -90.0}, "clock", Severity.WARNING, ["90 s behind kube-apiserver's"]),
    "a certificate that ends soon": (
        {"secret": serving(start=NOW - 330 * DAY)},
        "certificate-times",
        Severity.WARNING,
        ["the certificate expires at"],
    ),
    "an old Kubernetes": ({"kubernetes": "v1.29.4+k3s1"}, "kubernetes-version", Severity.ERROR, ["Kubernetes 1.30 or newer"]),
    "no caBundle": ({"api_services": [registered(caBundle="")]}, "ca-bundle", Severity.ERROR, ["it has no caBundle"]),
    "a caBundle that is none": (
        {"api_services": [registered(caBundle=encoded(b"no CA"))]},
        "ca-bundle",
        Severity.ERROR,
        ["its caBundle is not a certificate in PEM"],
    ),
    # Rights.
    "rights on one resource together": (
        {"denied": [HostAccess(verb, "", "resourcequotas") for verb in ("get", "list", "watch")]},
        "rights",
        Severity.ERROR,
        ["it lacks the permission to get, list, watch resourcequotas", "manifests/cluster-access.yaml gives it"],
    ),
    # Tasks.
    "a task that nobody runs": (
        {
            "task_leases": [
                {"metadata": {"name": "aggserver-app-x"}, "spec": {"holderIdentity": "a", "renewTime": "2023-01-01T00:00:00Z"}}
            ]
        },
        "task-lease",
        Severity.WARNING,
        ["a has not renewed it since 2023-01-01T00:00:00Z"],
    ),
}


@pytest.mark.parametrize(("changed", "check", "severity", "words"), CASES.values(), ids=CASES)
def test_a_finding(changed: dict[str, Any], check: str, severity: Severity, words: list[str]) -> None:
    found = diagnose(replace(WELL, **changed))
    assert [(each.check, each.severity) for each in found] == [(check, severity)]
    text = f"{found[0].where}: {found[0].what}; {found[0].why}; {found[0].mend}"
    assert [each for each in words if each not in text] == [], text


def test_a_rotation_is_no_finding() -> None:
    """A bundle has the old CA, the present one and the next one for a while."""
    bundle = (OLD_CA.cert_pem + new_ca("front-proxy", NOW).cert_pem + NEW_CA.cert_pem).decode()
    own = registered(caBundle=encoded(OLD_CA.cert_pem + CA.cert_pem))
    facts = replace(WELL, authentication=with_data(requestheader_client_ca_file=bundle), api_services=[own])
    assert diagnose(facts) == []


def test_a_rollout_is_no_finding() -> None:
    rolled = deployed(lambda found: found["status"].update(updatedReplicas=0))
    assert diagnose(replace(WELL, deployment=rolled, pods=[pod(), pod("old", image="aggserver:0.0.9")])) == []


@pytest.mark.parametrize(
    "restarts", [{"restartCount": 2, "lastState": ended(1)}, {"restartCount": 9, "lastState": ended(1, at=1)}]
)
def test_some_restarts_or_old_ones_are_no_finding(restarts: Object) -> None:
    assert diagnose(replace(WELL, pods=[pod(**restarts)])) == []


def test_one_cause_is_one_finding() -> None:
    """A broken Service makes as many APIServices unavailable as there are."""
    services = []
    for number in range(7):
        url = f"https://10.0.0.7:443/apis/g{number}.example.com/v1"
        text = f'failing or missing response from {url}: Get "{url}": dial tcp 10.0.0.7:443: connect: connection refused'
        one = registered({"status": "False", "reason": "FailedDiscoveryCheck", "message": text}, group=f"g{number}.example.com")
        one["metadata"]["name"] = f"v1.g{number}.example.com"
        services.append(one)
    [finding] = diagnose(replace(WELL, api_services=services, probes={}))
    assert finding.where.startswith("APIServices v1.g0.example.com, ")
    assert finding.where.endswith(" and 2 more")


def test_what_was_not_read_is_not_judged() -> None:
    nothing = InstallationFacts(
        service=SERVICE,
        now=NOW,
        unread=dict.fromkeys(
            (
                *("service", "endpoints", "deployment", "pods", "account", "authentication", "secret", "policy", "status"),
                *("Lease", "guard", "APIServices", "definitions of the cluster", "definitions"),
            ),
            "forbidden",
        ),
        selector="",
    )
    assert diagnose(nothing) == []


def test_commands_for_another_namespace() -> None:
    facts = InstallationFacts(service=Service("other", "aggserver"), now=NOW)
    assert facts.applied("a.yaml") == "sed s/aggserver-system/other/g manifests/a.yaml | kubectl apply --filename -"
    assert facts.applied("a.yaml", "b.yaml") == (
        "for file in manifests/a.yaml manifests/b.yaml; do sed s/aggserver-system/other/g $file "
        "| kubectl apply --filename -; done"
    )
    assert facts.all_applied() == "kubectl apply --kustomize manifests"


def test_commands_for_a_chart() -> None:
    made = deployed(lambda found: found["metadata"].update(annotations={"meta.helm.sh/release-name": "mine"}))
    facts = replace(WELL, deployment=made)
    upgrade = "helm upgrade mine manifests/helm --namespace aggserver-system --reuse-values"
    assert facts.applied("service.yaml") == facts.all_applied() == upgrade
    assert facts.all_applied(adoption=True) == f"{upgrade} --set adoption.enabled=true"


def test_the_page_has_each_check() -> None:
    """docs/doctor.md names what is looked at, and nothing else."""
    names = set()
    for path in (ROOT / "aggserver" / "commands" / "doctor").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                assert isinstance(node.args[0], ast.Constant), path
                names.add(node.args[0].value)
    _, _, table = (ROOT / "docs" / "doctor.md").read_text().partition("## What it looks at")
    shown = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`([a-z-]+)`", row)}
    assert shown == names


# --- the report


ONE = Finding("clock", Severity.WARNING, "Service a/b", "late", "", "timedatectl")
TWO = Finding("service", Severity.ERROR, "Service a/b", "gone", "why not", "kubectl apply")


def test_the_text() -> None:
    assert findings_text([TWO, ONE], ["a/b"], {"pods": "403"}).splitlines() == [
        "error: Service a/b: gone",
        "  why:  why not",
        "  mend: kubectl apply",
        "warning: Service a/b: late",
        "  mend: timedatectl",
        "not looked at: pods: 403",
        "looked at a/b: 1 error, 1 warning",
    ]
    assert findings_text([], ["a/b"], {"pods": "403"}).endswith("looked at a/b: nothing is wrong as far as could be seen")
    assert findings_text([], ["a/b", "c/d"], {}) == "looked at a/b, c/d: nothing is wrong"


def test_the_json() -> None:
    found = findings_json([TWO], ["a/b"], {})
    assert found == {
        "ok": False,
        "installations": ["a/b"],
        "findings": [
            {
                "check": "service",
                "severity": "error",
                "object": "Service a/b",
                "what": "gone",
                "why": "why not",
                "mend": "kubectl apply",
            }
        ],
        "notLookedAt": [],
    }
