"""The rules of a cluster hold for what aggserver serves behind its aggregator: as they come, change and go, while others write.

What single rules decide is compared with kube-apiserver elsewhere; here it is about where they come from, and about rights.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.integration import pages
from tests.integration.aggregation import NAMESPACE, SERVICE, Aggregation
from tests.integration.direct import Direct
from tests.integration.server import eventually, running

GROUP = "stable.example.com"
REGISTRATION = "admissionregistration.k8s.io/v1"
RULES = [{"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["crontabs"]}]
_names = (f"n{number}" for number in itertools.count())


@pytest.fixture
def plane(aggregation: Aggregation) -> ControlPlane:
    return aggregation.plane


def apply(plane: ControlPlane, *objects: dict[str, Any]) -> None:
    plane.kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))


@contextlib.contextmanager
def applied(plane: ControlPlane, *objects: dict[str, Any]) -> Iterator[None]:
    apply(plane, *objects)
    try:
        yield
    finally:
        plane.kubectl("delete", "--ignore-not-found", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))


def create(plane: ControlPlane, namespace: str, **more: Any) -> str:
    """What kubectl says of a create."""
    obj = yaml.safe_load(pages.MY_CRONTAB)
    obj["metadata"] = {"name": next(_names), **more}
    done = plane.kubectl("create", "-n", namespace, "-f", "-", input=json.dumps(obj), check=False)
    return (done.stdout + done.stderr).strip()


def says(plane: ControlPlane, namespace: str, text: str) -> str:
    """Waits until a create is answered so."""
    return eventually(lambda: said if text in (said := create(plane, namespace)) else "", f"a create says {text!r}")


@contextlib.contextmanager
def load(plane: ControlPlane, namespace: str) -> Iterator[None]:
    """Others who write to objects of the same kind all the time."""
    create_args = ("create", "-n", namespace, "-f", "-")
    plane.kubectl(*create_args, input=pages.MY_CRONTAB)
    done = threading.Event()

    def write() -> None:
        for number in itertools.count():
            if done.is_set():
                return
            plane.kubectl("label", "-n", namespace, f"crontabs.{GROUP}", "--all", "--overwrite", f"at=x{number}", check=False)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        done.set()
        for writer in writers:
            writer.join()


def policy(message: str, name: str = "refused", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": REGISTRATION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": RULES},
            "validations": [{"expression": "false", "message": message}],
            **spec,
        },
    }


def binding(namespace: str, name: str = "refused", **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return {
        "apiVersion": REGISTRATION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": selector},
            **spec,
        },
    }


def webhook(namespace: str, failure_policy: str) -> dict[str, Any]:
    """One that nobody answers for."""
    return {
        "apiVersion": REGISTRATION,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "down"},
        "webhooks": [
            {
                "name": "down.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": RULES,
                "failurePolicy": failure_policy,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            }
        ],
    }


def test_a_policy_comes_changes_and_goes(plane: ControlPlane, namespace: str) -> None:
    assert "created" in create(plane, namespace)
    with load(plane, namespace):
        with applied(plane, policy("first"), binding(namespace)):
            said = says(plane, namespace, "first")
            assert "ValidatingAdmissionPolicy 'refused' with binding 'refused' denied request: first" in said
            apply(plane, policy("second"))
            says(plane, namespace, "denied request: second")
            apply(plane, binding(namespace, validationActions=["Warn"]))
            assert "Warning: Validation failed for ValidatingAdmissionPolicy 'refused'" in says(plane, namespace, "created")
        eventually(lambda: "Warning" not in create(plane, namespace), "the policy is gone")


def test_a_webhook_comes_changes_and_goes(plane: ControlPlane, namespace: str) -> None:
    with load(plane, namespace):
        with applied(plane, webhook(namespace, "Fail")):
            said = says(plane, namespace, "failed calling webhook")
            assert 'Internal error occurred: failed calling webhook "down.example.com": ' in said
            assert "connection refused" in said
            apply(plane, webhook(namespace, "Ignore"))
            says(plane, namespace, "created")
            apply(plane, webhook(namespace, "Fail"))
            says(plane, namespace, "failed calling webhook")
        says(plane, namespace, "created")


def test_a_namespaces_labels_count(plane: ControlPlane, namespace: str) -> None:
    """Those that it has now, not those that it had when it was created."""
    selected = {"namespaceSelector": {"matchLabels": {"guarded": namespace}}}
    with applied(plane, policy("guarded", "labels"), binding(namespace, "labels", matchResources=selected)):
        assert "created" in create(plane, namespace)
        plane.kubectl("label", "namespace", namespace, f"guarded={namespace}")
        says(plane, namespace, "denied request: guarded")
        plane.kubectl("label", "namespace", namespace, "guarded-")
        says(plane, namespace, "created")


@pytest.mark.parametrize("kind", ["ConfigMap", "CronTab"])
def test_params(plane: ControlPlane, namespace: str, kind: str) -> None:
    """Of a kind that this server serves itself, too: those it reads through the aggregator."""
    named = {"ConfigMap": ("v1", "configmaps"), "CronTab": (f"{GROUP}/v1", f"crontabs.{GROUP}")}
    api_version, resource = named[kind]
    group = api_version.rpartition("/")[0]
    name = f"params-{kind.lower()}"
    limit = "params.data.limit" if kind == "ConfigMap" else "params.spec.image"
    ruled = policy(
        "",
        name,
        paramKind={"apiVersion": api_version, "kind": kind},
        validations=[{"expression": f"{limit} == 'none'", "messageExpression": f"'limit ' + {limit}"}],
        matchConstraints={"resourceRules": RULES, "excludeResourceRules": [{**RULES[0], "resourceNames": ["param"]}]},
    )
    bound = binding(namespace, name, paramRef={"name": "param", "parameterNotFoundAction": "Allow"})
    right = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"apiGroups": [group], "resources": [resource.partition(".")[0]], "verbs": ["list", "watch"]}],
    }
    granted = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE, "namespace": NAMESPACE}],
    }

    def param(limit: str) -> dict[str, Any]:
        content = {"data": {"limit": limit}} if kind == "ConfigMap" else {"spec": {"image": limit}}
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "param", "namespace": namespace}, **content}

    with applied(plane, ruled, bound):
        # Without the right to read them, the failurePolicy counts, which is Fail.
        says(plane, namespace, "not yet synced to use for admission")
        with applied(plane, right, granted):
            says(plane, namespace, "created")
            with applied(plane, param("one")):
                says(plane, namespace, "limit one")
                apply(plane, param("two"))
                says(plane, namespace, "limit two")
                apply(plane, param("none"))
                says(plane, namespace, "created")
            says(plane, namespace, "created")


def test_a_rule_for_everything_locks_nobody_out(plane: ControlPlane, aggregation: Aggregation, namespace: str) -> None:
    """It concerns the server's own Service, APIService and rights too; they are kube-apiserver's. It can be removed."""
    everything = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]
    down = webhook(namespace, "Fail")
    down["webhooks"][0] |= {"rules": everything, "namespaceSelector": {}, "timeoutSeconds": 1}
    with applied(plane, down):
        says(plane, namespace, "failed calling webhook")
        # A restart reads the certificate, the rules and the APIServices, and writes none of them.
        with aggregation.stopped():
            pass
        says(plane, namespace, "failed calling webhook")
        assert plane.kubectl("get", f"crontabs.{GROUP}", "-n", namespace).returncode == 0
    says(plane, namespace, "created")


def test_the_last_known_rules_hold(plane: ControlPlane, aggregation: Aggregation, namespace: str) -> None:
    """Rights that are withdrawn are like an API server that does not answer. Restored, they are read again."""
    role = next(obj for obj in aggregation.objects if obj["kind"] == "ClusterRole" and obj["metadata"]["name"] == SERVICE)
    less = {**role, "rules": [rule for rule in role["rules"] if "admissionregistration.k8s.io" not in rule["apiGroups"]]}
    with applied(plane, policy("kept"), binding(namespace)):
        says(plane, namespace, "denied request: kept")
        apply(plane, less)
        try:
            with running(other := aggregation.beside(Path(aggregation.kubeconfig).parent / "other", 0)):
                other.wait_for(
                    r"apiGroups: \['admissionregistration.k8s.io'\], resources: \[validatingwebhookconfigurations\], "
                    r"verbs: \[get, list, watch\]"
                )
                assert b"[-]admission failed: reason withheld\n" in Direct(other.port).get("/readyz").body
                apply(plane, role)
                eventually(lambda: Direct(other.port).get("/readyz").status == 200, "it is ready")
            assert "denied request: kept" in create(plane, namespace)
        finally:
            apply(plane, role)
