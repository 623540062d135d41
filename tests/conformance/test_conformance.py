"""Upstream's own tests of definitions against `aggserver dev`: all pass but those of waiting.yaml, each with its reason."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.conformance import suite
from tests.controlplane.binaries import obtain
from tests.controlplane.etcd import EtcdCluster
from tests.integration.server import Standalone, running

WAITING = yaml.safe_load(Path(__file__).with_name("waiting.yaml").read_text())
SKIPPED = [name for names in WAITING.values() for name in names]
# These look into the server's etcd, or put there what no API would take. All others don't care what the server stores in.
LOOK_INTO_ETCD = (
    "TestCustomResourceDefaultingOfMetaFields",
    "TestInvalidObjectMetaInStorage",
    "TestNonStructuralSchemaConditionForCRDV1Beta1MigratedData",
    "TestNonStructuralSchemaConditionUpdate",
    "TestPruningFromStorage",
    "TestCustomResourceValidators/CRD_writes_MUST_fail_for_a_non-structural_schema_containing_x-kubernetes-validations",
)
# As kube-apiserver, which leaves stored objects and status.storedVersions as they are.
UNMIGRATED = "--migrate-storage=false"
# A run that passed less has looked at less: tests and subtests.
AT_LEAST = 160
AT_LEAST_IN_ETCD = 44
TIMEOUT_MINUTES = 10


@pytest.mark.integration
def test_upstream_suite(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capfd.disabled():
            print(line, file=sys.stderr)

    folder = suite.build(os.environ, say)

    def run_all() -> tuple[suite.Results, str]:
        with running(server := Standalone(tmp_path / "data", UNMIGRATED)):
            return suite.run(folder, server.kubeconfig, TIMEOUT_MINUTES, skip=[*SKIPPED, *LOOK_INTO_ETCD])

    def run_those_of_etcd() -> tuple[suite.Results, str]:
        with EtcdCluster(obtain(os.environ, say), tmp_path) as etcd:
            storage = ["--storage", "etcd", "--etcd-servers", etcd.urls[0], "--etcd-prefix", suite.ETCD_PREFIX]
            with running(server := Standalone(tmp_path / "with-etcd", UNMIGRATED, *storage)):
                return suite.run(folder, server.kubeconfig, TIMEOUT_MINUTES, only=LOOK_INTO_ETCD, etcd=etcd.urls[0])

    # At once: those of etcd do nothing for most of their time but wait for conditions that must not come.
    with ThreadPoolExecutor() as pool:
        runs = [(pool.submit(run_all), AT_LEAST), (pool.submit(run_those_of_etcd), AT_LEAST_IN_ETCD)]
        for run, at_least in runs:
            results, output = run.result()
            failed = sorted(name for name, result in results.items() if result == "FAIL")
            assert not failed, output[-20_000:]
            assert list(results.values()).count("PASS") >= at_least, output[-20_000:]


def test_every_reason_has_its_tests() -> None:
    assert len(SKIPPED) == len(set(SKIPPED)) > 0
    assert not set(SKIPPED) & set(LOOK_INTO_ETCD)
