"""The table of rights is that of manifests/: what a file gives is in it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from aggserver.adoption.switch.guard import guard_name
from aggserver.apiextensions.api_service import Service
from aggserver.commands.adopt.plan import HostAccess
from aggserver.commands.doctor import rights
from aggserver.meta import codec

MANIFESTS = Path(__file__).parents[3] / "manifests"
SERVICE = Service(rights.MANIFESTS_NAMESPACE, "aggserver")
GRANTS = [
    *rights.grants(),
    *rights.grants_of_certificates(SERVICE),
    *rights.grants_of_tasks(SERVICE),
    *rights.grants_of_adoption(SERVICE, guard_name(SERVICE), lists_kube_apiservers=True),
]

# Roles of kube-apiserver's own, which the files bind: k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy, v1.36.3.
OF_KUBERNETES: dict[str, list[dict[str, Any]]] = {
    "auth-delegator.yaml": [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ],
    "auth-reader.yaml": [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["extension-apiserver-authentication"],
            "verbs": ["get", "list", "watch"],
        }
    ],
}


def load(file: str) -> dict[str, Any]:
    found: dict[str, Any] = codec.decode_yaml((MANIFESTS / file).read_bytes())
    return found


def given(rules: Iterable[dict[str, Any]], namespace: str) -> set[HostAccess]:
    found = set()
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames") or [""]:
                    kind, _, subresource = resource.partition("/")
                    found |= {HostAccess(verb, group, kind, subresource, namespace, name) for verb in rule["verbs"]}
    return found


@pytest.mark.parametrize("grant", GRANTS, ids=lambda grant: grant.files[0])
def test_the_rights_are_those_of_the_file(grant: rights.Grant) -> None:
    file = load(grant.files[0])
    rules = OF_KUBERNETES.get(grant.files[0]) or file["rules"]
    namespace = file["metadata"].get("namespace", "")
    # A ClusterRole gives in all namespaces what is asked for in one.
    asked = set(grant.rights) if namespace else {each._replace(namespace="") for each in grant.rights}
    assert asked == given(rules, namespace)
    binding = load(grant.files[-1])
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "aggserver", "namespace": SERVICE.namespace}]


def test_every_file_that_gives_the_account_rights_is_in_it() -> None:
    """But for `adopted`, whose rights are yours to give: `grant_of_objects`."""
    bound = {
        str(path.relative_to(MANIFESTS))
        for path in MANIFESTS.rglob("*.yaml")
        if not {"examples", "helm"} & set(path.parts)
        and (found := codec.decode_yaml(path.read_bytes()))
        and isinstance(found, dict)
        and any(each.get("name") == "aggserver" for each in found.get("subjects") or ())
    }
    assert bound - {"adoption/adopted-binding.yaml"} == {grant.files[-1] for grant in GRANTS}


def test_the_command_for_objects() -> None:
    version = {"name": "v1", "served": True, "subresources": {"status": {}}}
    crd = {"spec": {"group": "a.example.com", "names": {"plural": "things"}, "versions": [version]}}
    found = rights.grant_of_objects(crd, has_host_etcd=False)
    assert "--resource=things.a.example.com,things.a.example.com/status " in found.mend
    assert rights.grant_of_objects(crd, has_host_etcd=True).rights == []
