"""The admission policy of the manifests on a real kube-apiserver: which APIServices the service account may touch.

RBAC lets it write all of them; the server itself leaves others' alone, and here is asked what somebody with its token could do.
"""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.aggregation import API_SERVICE, NAMESPACE, SERVICE, Aggregation
from tests.integration.server import eventually

OURS = {"namespace": NAMESPACE, "name": SERVICE}
NOT_OURS = "aggserver may only touch APIServices that lead to its own Service, aggserver-system/aggserver"
NO_GROUP = "aggserver may not serve a group of Kubernetes' own"
NO_TLS = "aggserver may not have the aggregator pass over its certificate"


def api_service(group: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15, **spec},
    }


class Account:
    """What kubectl does with the server's token."""

    def __init__(self, aggregation: Aggregation) -> None:
        self._aggregation = aggregation

    def __call__(self, *arguments: str, given: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        plane, text = self._aggregation.plane, None if given is None else json.dumps(given)
        return plane.kubectl(*arguments, user=self._aggregation.kubeconfig, input=text, check=False)

    def refused(self, why: str, *arguments: str, given: dict[str, Any] | None = None) -> None:
        done = self(*arguments, given=given)
        assert (done.returncode, why in done.stderr) == (1, True), done.stderr or done.stdout
        assert "denied request" in done.stderr


@pytest.fixture(scope="module")
def account(aggregation: Aggregation) -> Account:
    made = Account(aggregation)
    # A policy is in force once kube-apiserver has seen it.
    probe = api_service("policy.example.com", service={"namespace": NAMESPACE, "name": "other"})
    eventually(lambda: NOT_OURS in made("create", "--dry-run=server", "-f", "-", given=probe).stderr, "the policy is in force")
    return made


@pytest.fixture
def foreign(aggregation: Aggregation) -> Iterator[dict[str, Any]]:
    """Another server's, made by an administrator, whom the policy is not about."""
    other = {"namespace": "default", "name": "other"}
    made = api_service("policy.example.com", service=other, insecureSkipTLSVerify=True)
    aggregation.plane.kubectl("create", "-f", "-", input=json.dumps(made))
    yield made
    aggregation.plane.kubectl("delete", "apiservice", made["metadata"]["name"])


def test_its_own(account: Account) -> None:
    given = api_service("policy.example.com", service=OURS)
    try:
        done = account("create", "-f", "-", given=given)
        assert done.returncode == 0, done.stderr
        given["spec"]["versionPriority"] = 20
        done = account("replace", "-f", "-", given=given)
        assert done.returncode == 0, done.stderr
    finally:
        done = account("delete", "apiservice", "v1.policy.example.com")
    assert done.returncode == 0, done.stderr


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another service": (api_service("policy.example.com", service={"namespace": NAMESPACE, "name": "other"}), NOT_OURS),
    "another namespace": (api_service("policy.example.com", service={"namespace": "default", "name": SERVICE}), NOT_OURS),
    "no service": (api_service("policy.example.com"), NOT_OURS),
    "a group of Kubernetes": (api_service("policy.k8s.io", service=OURS), NO_GROUP),
    "a group without a dot": (api_service("policies", service=OURS), NO_GROUP),
    "without its certificate": (api_service("policy.example.com", service=OURS, insecureSkipTLSVerify=True), NO_TLS),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_may_not_create(account: Account, name: str) -> None:
    given, why = REFUSED[name]
    account.refused(why, "create", "-f", "-", given=given)


def test_what_it_may_not_take_over(account: Account, aggregation: Aggregation, foreign: dict[str, Any]) -> None:
    name = foreign["metadata"]["name"]
    taken = copy.deepcopy(foreign)
    taken["spec"] |= {"service": OURS, "insecureSkipTLSVerify": False}
    account.refused(NOT_OURS, "replace", "-f", "-", given=taken)
    account.refused(NOT_OURS, "delete", "apiservice", name)
    # Kubernetes' own, which kube-apiserver serves itself, and every group of a definition of the cluster.
    account.refused(NOT_OURS, "delete", "apiservice", "v1.apps")
    apps = aggregation.plane.get("apiservice", "v1.apps")
    apps["spec"]["service"] = OURS
    account.refused(NOT_OURS, "replace", "-f", "-", given=apps)
    assert aggregation.plane.get("apiservice", name)["spec"]["service"]["name"] == "other"


def test_it_may_not_hand_its_own_over(account: Account, aggregation: Aggregation) -> None:
    own = aggregation.plane.get("apiservice", API_SERVICE)
    own["spec"]["service"]["name"] = "other"
    account.refused(NOT_OURS, "replace", "-f", "-", given=own)


def test_nobody_else_is_held_to_it(aggregation: Aggregation, foreign: dict[str, Any]) -> None:
    aggregation.plane.kubectl("annotate", "apiservice", foreign["metadata"]["name"], "touched=yes")
