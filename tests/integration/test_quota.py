"""ResourceQuotas of a real cluster: counted by aggserver and by kube-controller-manager, refused as for a built-in definition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.integration import pages
from tests.integration.aggregation import Aggregation
from tests.integration.server import eventually
from tests.waiting import KUBECTL_LIMIT

OURS, THEIRS = "crontabs.stable.example.com", "crontabs.builtin.example.com"
# The same definition in a group that kube-apiserver serves itself.
BUILT_IN = (
    (Path(__file__).parents[2] / "manifests/examples/crontab.yaml").read_text().replace("stable.example", "builtin.example")
)


@pytest.fixture(scope="module")
def plane(aggregation: Aggregation) -> Iterator[ControlPlane]:
    """With the definition on both sides, and known to kube-controller-manager."""
    plane = aggregation.plane
    plane.kubectl("apply", "-f", "-", input=BUILT_IN)
    plane.kubectl("wait", "--for=condition=Established", f"crd/{THEIRS}", KUBECTL_LIMIT)

    def are_counted() -> bool:
        # It counts what it knows when it sees a quota, and otherwise every five minutes.
        plane.kubectl("create", "quota", "probe", f"--hard=count/{OURS}=0,count/{THEIRS}=0")
        try:
            eventually(lambda: plane.get("resourcequota", "probe")["status"].get("hard"), "the quota is taken over")
            return len(plane.get("resourcequota", "probe")["status"].get("used") or {}) == 2
        finally:
            plane.kubectl("delete", "quota", "probe")

    eventually(are_counted, "kube-controller-manager knows the kinds")
    yield plane
    plane.kubectl("delete", "crd", THEIRS)


def set_quota(plane: ControlPlane, namespace: str, limits: dict[str, str]) -> None:
    """limits: by resource. Returns when kube-controller-manager has taken it over and counted."""
    hard = {f"count/{resource}": limit for resource, limit in limits.items()}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": namespace},
        "spec": {"hard": hard},
    }
    plane.kubectl("apply", "-f", "-", input=json.dumps(quota))

    def is_taken_over() -> bool:
        found = status(plane, namespace)
        return found.get("hard") == hard and (found.get("used") or {}).keys() == hard.keys()

    eventually(is_taken_over, "the quota is taken over")


def status(plane: ControlPlane, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = plane.get("resourcequota", "q", "-n", namespace)["status"]
    return found


def used(plane: ControlPlane, namespace: str) -> dict[str, str]:
    return {key.removeprefix("count/"): value for key, value in status(plane, namespace)["used"].items()}


def manifest(resource: str, name: str) -> str:
    group = resource.partition(".")[2]
    return pages.MY_CRONTAB.replace("stable.example.com", group).replace("my-new-cron-object", name)


def create(plane: ControlPlane, namespace: str, resource: str, name: str, *arguments: str) -> str:
    """What kubectl says of it."""
    done = plane.kubectl("create", "-n", namespace, "-f", "-", *arguments, input=manifest(resource, name), check=False)
    return (done.stdout + done.stderr).strip().replace(resource, "RESOURCE").replace(resource.partition(".")[2], "GROUP")


def steps(plane: ControlPlane, namespace: str, resource: str) -> list[str]:
    """The same requests for either side."""
    said = [
        create(plane, namespace, resource, "a", "--dry-run=server"),
        create(plane, namespace, resource, "a"),
        create(plane, namespace, resource, "a"),
        str(used(plane, namespace)[resource]),
        create(plane, namespace, resource, "b"),
        create(plane, namespace, resource, "c"),
        create(plane, namespace, resource, "c", "--dry-run=server"),
    ]
    for arguments in (("label", resource, "a", "x=y"), ("apply", "-f", "-", "--server-side"), ("replace", "-f", "-")):
        done = plane.kubectl(*arguments, "-n", namespace, input=manifest(resource, "c"), check=False)
        text = (done.stdout + done.stderr).replace(resource, "RESOURCE").replace(resource.partition(".")[2], "GROUP")
        said.append(text.strip())
    return said


def test_refused_as_for_a_built_in_definition(plane: ControlPlane, namespace: str) -> None:
    set_quota(plane, namespace, {OURS: "3", THEIRS: "3"})
    # A failed create stays counted until kube-controller-manager counts again, on both sides.
    ours, theirs = steps(plane, namespace, OURS), steps(plane, namespace, THEIRS)
    assert ours == theirs
    assert any(
        "exceeded quota: q, requested: count/RESOURCE=1, used: count/RESOURCE=3, limited: count/RESOURCE=3" in said
        for said in ours
    )


def test_creates_side_by_side(plane: ControlPlane, namespace: str) -> None:
    set_quota(plane, namespace, {OURS: "12"})
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda number: create(plane, namespace, OURS, f"c{number}"), range(20)))
    assert sum("created" in said for said in answers) == 12
    assert len(plane.get(OURS, "-n", namespace)["items"]) == 12
    assert used(plane, namespace) == {OURS: "12"}


def test_what_is_deleted_is_counted_by_the_controller(plane: ControlPlane, namespace: str) -> None:
    set_quota(plane, namespace, {OURS: "2"})
    for name in "ab":
        assert "created" in create(plane, namespace, OURS, name)
    assert "exceeded quota" in create(plane, namespace, OURS, "c")
    plane.kubectl("delete", OURS, "a", "-n", namespace)
    eventually(lambda: used(plane, namespace) == {OURS: "1"}, "the usage is decreased")
    assert "created" in eventually(
        lambda: said if "created" in (said := create(plane, namespace, OURS, "c")) else "", "there is room again"
    )
    assert used(plane, namespace) == {OURS: "2"}


def test_a_quota_that_comes_changes_and_goes(plane: ControlPlane, namespace: str) -> None:
    set_quota(plane, namespace, {OURS: "1"})
    assert "created" in create(plane, namespace, OURS, "a")
    assert "exceeded quota" in create(plane, namespace, OURS, "b")
    set_quota(plane, namespace, {OURS: "2"})
    eventually(lambda: "created" in create(plane, namespace, OURS, "b"), "the new limit holds")
    assert "exceeded quota" in create(plane, namespace, OURS, "c")
    plane.kubectl("delete", "resourcequota", "q", "-n", namespace)
    eventually(lambda: "created" in create(plane, namespace, OURS, "c"), "there is no limit any more")
