"""A trace of kube-apiserver and ours joined, as a collector sees it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.integration.aggregation import Aggregation
from tests.tracing.collector import Collector, Received, collecting

CRONTAB = {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "spec": {"cronSpec": "* * * * */5", "image": "i"}}
SECONDS = 30
# The part of a request that ends last.
LAST = "Response"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture(scope="module")
def traced(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregation]:
    folder = tmp_path_factory.mktemp("traced")

    def configuration(rate: int) -> Path:
        file = folder / f"tracing-{rate}.json"
        head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "TracingConfiguration"}
        file.write_text(json.dumps({**head, "endpoint": collector.endpoint, "samplingRatePerMillion": rate}))
        return file

    # Ours begins no traces: what it sends was sampled by kube-apiserver.
    with ControlPlane(
        obtain(os.environ, print), apiserver_arguments=[f"--tracing-config-file={configuration(1_000_000)}"]
    ) as plane:
        made = Aggregation(plane, folder, "--tracing-config-file", str(configuration(0)))
        yield made
        assert made.server.stop() == 0, made.server.output


def trace_of_ours(collector: Collector, name: str) -> list[Received]:
    """All spans that arrived of the trace in which we have a request of this name, once both servers have sent theirs."""
    found: list[Received] = []
    while True:
        found.append(collector.arrived.get(timeout=SECONDS))
        for ours in [span for span in found if span.service == "aggserver" and span.name == name]:
            trace = [span for span in found if span.trace == ours.trace]
            if any(span.span == ours.parent for span in trace) and LAST in {span.name for span in trace}:
                return trace


def test_a_write_is_one_trace(traced: Aggregation, collector: Collector) -> None:
    traced.plane.kubectl("create", "-f", "-", input=json.dumps({**CRONTAB, "metadata": {"name": "traced"}}))
    name = "POST /apis/stable.example.com/v1/namespaces/{:namespace}/crontabs"
    trace = trace_of_ours(collector, name)
    spans = {span.span: span for span in trace}
    [request] = [span for span in trace if (span.service, span.name) == ("aggserver", name)]
    assert spans[request.parent].service == "apiserver"
    assert request.attributes["http.status_code"] == 201
    ours = {span.name: span for span in trace if span.service == "aggserver"}
    assert {"Authentication", "Authorization", "Handler", "Storage", "Response"} <= ours.keys()
    assert ours["Handler"].parent == request.span
    assert spans[ours["Storage"].parent].name == "Handler"
