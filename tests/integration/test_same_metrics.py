"""The metrics that kube-apiserver has, too, have its types, labels, buckets and stability, so that its dashboards show ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.controlplane.cluster import Cluster, Kubectl
from tests.waiting import KUBECTL_LIMIT

_EXAMPLE = Path(__file__).parents[2] / "manifests/examples/crontab.yaml"
# Of the process and its language, which are others.
_OTHERS = ("go_", "process_", "python_")


def shapes(text: str) -> dict[str, tuple[str, str, set[str], set[str]]]:
    """By name: the stability, the type, the names of labels, and the bounds of buckets."""
    found = {}
    counters = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE") and line.endswith(" counter")}
    for family in text_string_to_metric_families(text):
        labels = {label for sample in family.samples for label in sample.labels}
        bounds = {sample.labels["le"] for sample in family.samples if "le" in sample.labels}
        name = f"{family.name}_total" if family.type == "counter" and family.name not in counters else family.name
        stability = family.documentation.partition("]")[0].lstrip("[")
        found[name] = stability, family.type, labels - {"le"}, {f"{float(bound):g}" for bound in bounds}
    return found


def exercise(run: Callable[..., Any]) -> None:
    """Requests after which both have series of the same metrics."""
    run("apply", "-f", str(_EXAMPLE))
    run("wait", "--for=condition=Established", "crd/crontabs.stable.example.com", KUBECTL_LIMIT)
    body = {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "measured"}}
    run("create", "-f", "-", input=json.dumps({**body, "spec": {"cronSpec": "* * * * */5", "image": "i"}}))
    # With its group: other tests have kinds of the same name.
    run("get", "crontabs.stable.example.com", "--watch", "--request-timeout=1s", check=False)
    run("get", "crontabs.stable.example.com", "measured")
    run("delete", "crontabs.stable.example.com", "measured")


def test_what_both_have_is_the_same(control_plane: Cluster, kubectl: Kubectl) -> None:
    theirs_of: Kubectl = control_plane.kubectl
    for run in (theirs_of, kubectl):
        exercise(run)
    theirs = shapes(theirs_of("get", "--raw", "/metrics").stdout)
    ours = shapes(kubectl("get", "--raw", "/metrics").stdout)
    both = {name for name in ours.keys() & theirs.keys() if not name.startswith(_OTHERS)}
    different = {
        name: (ours[name], theirs[name]) for name in both if ours[name][2] and theirs[name][2] and ours[name] != theirs[name]
    }
    assert different == {}
    assert {"apiserver_request_sli_duration_seconds", "authentication_attempts", "apiserver_watch_events_sizes"} <= both
    assert len(both) > 25, sorted(both)


def test_health_checks_are_measured_alike(control_plane: Cluster, kubectl: Kubectl) -> None:
    for run in (control_plane.kubectl, kubectl):
        run("get", "--raw", "/readyz")
    theirs, ours = (shapes(run("get", "--raw", "/metrics/slis").stdout) for run in (control_plane.kubectl, kubectl))
    theirs.pop("process_start_time_seconds", None)  # it is in both servers' /metrics
    assert ours == theirs
