"""Upstream's own tests of definitions against `aggserver dev`: all pass but those of waiting.yaml, each with its reason."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
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
AT_LEAST = 205
AT_LEAST_IN_ETCD = 44
AT_LEAST_OF_CONVERSION = 344
TIMEOUT_MINUTES = 10


@pytest.mark.integration
def test_upstream_suite(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capfd.disabled():
            print(line, file=sys.stderr)

    folder = suite.build(os.environ, say)

    def on_sqlite(binaries: Sequence[str]) -> tuple[suite.Results, str]:
        with running(server := Standalone(tmp_path / "data", UNMIGRATED)):
            skip = [*SKIPPED, *LOOK_INTO_ETCD]
            return suite.run(folder, server.kubeconfig, TIMEOUT_MINUTES, binaries=binaries, skip=skip)

    def on_etcd(name: str, binaries: Sequence[str], only: Sequence[str]) -> tuple[suite.Results, str]:
        (own := tmp_path / name).mkdir()
        with EtcdCluster(obtain(os.environ, say), own) as etcd:
            url = etcd.urls[0]
            storage = ["--storage", "etcd", "--etcd-servers", url, "--etcd-prefix", suite.ETCD_PREFIX]
            with running(server := Standalone(own / "data", UNMIGRATED, *storage)):
                return suite.run(folder, server.kubeconfig, TIMEOUT_MINUTES, binaries=binaries, only=only, skip=SKIPPED, etcd=url)

    # At once: those of etcd do little for most of their time but wait, for conditions that must not come and for definitions.
    with ThreadPoolExecutor() as pool:
        definitions = [suite.DEFINITIONS, suite.RULES_BINARY]
        runs = [
            (pool.submit(on_sqlite, definitions), AT_LEAST),
            (pool.submit(on_etcd, "definitions", definitions, LOOK_INTO_ETCD), AT_LEAST_IN_ETCD),
            (pool.submit(on_etcd, "conversion", [suite.CONVERSION], ()), AT_LEAST_OF_CONVERSION),
        ]
        for run, at_least in runs:
            results, output = run.result()
            failed = sorted(name for name, result in results.items() if result == "FAIL")
            assert not failed, f"{failed}\n{output[-20_000:]}"
            assert list(results.values()).count("PASS") >= at_least, output[-20_000:]


def test_every_reason_has_its_tests() -> None:
    assert len(SKIPPED) == len(set(SKIPPED)) > 0
    assert not set(SKIPPED) & set(LOOK_INTO_ETCD)
