"""Each command that README.md and docs/ show is run by a test, or read by its parser, or stands here with the reason why not."""

from __future__ import annotations

import argparse
import importlib
import shlex
from pathlib import Path
from typing import Any

import pytest

from aggserver.options import parse
from tests import (
    test_cel_page,
    test_conversion_page,
    test_envtest_command,
    test_python_running_page,
    test_python_types_page,
    test_readme,
)
from tests.app import test_controllers, test_reloading
from tests.fenced import PAGES, blocks, commands
from tests.integration import test_commands as integration
from tests.integration import test_doctor, test_python_page, test_users
from tests.integration import test_python_running_page as on_a_cluster

NOT_RUN = {
    "make test": "it is what runs the tests",
    "aggserver dev -f https://example.com/crds.yaml --kubeconfig ~/.kube/config": "the definitions are on another machine",
    "docker build -t aggserver .": "needs Docker: tests/kind/test_image.py builds it where there is one",
    "docker build --tag aggserver:0.1.0 .": "needs Docker: tests/kind/test_image.py builds it where there is one",
    "kubectl rollout status deployment/aggserver --namespace aggserver-system": "needs a node to run the pod: make kind has one",
    "kubectl create secret generic aggserver-etcd --namespace aggserver-system"
    " --from-literal servers=https://a:2379,https://b:2379,https://c:2379"
    " --from-file ca.crt --from-file tls.crt --from-file tls.key": "needs an etcd, which make kind has",
    "helm install aggserver manifests/helm --namespace aggserver-system --create-namespace"
    " --set image.repository=REGISTRY/aggserver": "needs a node for the pod: test_helm_chart.py installs the rest",
    "kubectl label namespace aggserver-system pod-security.kubernetes.io/enforce=restricted": "of the namespace above",
    "kubectl create clusterrolebinding aggserver:metrics --clusterrole=aggserver:metrics"
    " --serviceaccount=monitoring:prometheus-k8s": "is about a Prometheus that no test has",
    "kubectl create secret generic aggserver-backup --namespace aggserver-system"
    " --from-literal DESTINATION=BUCKET/aggserver --from-literal RCLONE_CONFIG_BACKUP_TYPE=s3"
    " --from-literal RCLONE_CONFIG_BACKUP_PROVIDER=Other --from-literal RCLONE_CONFIG_BACKUP_NO_CHECK_BUCKET=true"
    " --from-literal RCLONE_CONFIG_BACKUP_ENDPOINT=https://s3.example.com"
    " --from-literal RCLONE_CONFIG_BACKUP_ACCESS_KEY_ID=ID --from-literal RCLONE_CONFIG_BACKUP_SECRET_ACCESS_KEY=KEY": (
        "tests/integration/test_backup.py takes its settings"
    ),
    "kubectl create job --from cronjob/aggserver-backup aggserver-backup-now --namespace aggserver-system": (
        "needs a node: tests/integration/test_backup.py runs the Job's commands"
    ),
    "pip install 'aggserver[etcd]'": "needs a release on the package index",
    "pip install 'aggserver[pytest]'": "needs a release on the package index",
}

# Each takes minutes, or machines of its own: here the command's parser takes its options.
READ = [
    "python -m benchmarks",
    "python -m benchmarks --storage etcd",
    "python -m benchmarks --growth",
    "python -m benchmarks --hostile",
    "python -m benchmarks --soak 15",
    "python -m benchmarks --quick",
    "python -m benchmarks --workloads get list-500 --rounds 5",
    "python -m benchmarks --only aggserver --workloads get --profile get.pstats",
    "python -m benchmarks.cel",
    "python -m benchmarks.conversion",
    "python -m benchmarks.admission",
    "python -m benchmarks.adoption",
    "python -m benchmarks.definitions",
    "python -m benchmarks.encodings",
    "python -m benchmarks.fairness",
    "python -m benchmarks.full_lists",
    "python -m benchmarks.interpreters",
    "python -m benchmarks.layers",
    "python -m benchmarks.merging",
    "python -m benchmarks.millions",
    "python -m benchmarks.operators",
    "python -m benchmarks.page",
    "python -m benchmarks.replicas",
    "python -m benchmarks.resources",
    "python -m benchmarks.testing",
    "python -m benchmarks.selectors",
    "python -m benchmarks.sizing",
    "python -m benchmarks.wardle",
    "python -m benchmarks.watchers",
    "python -m benchmarks --write-docs",
    "python -m benchmarks --report benchmarks/results/20260101T000000Z.json --write-docs",
    ".venv/bin/python -m tests.history --minutes 10 --seed 7 --store etcd",
    "aggserver adopt plan --adopt aggserver.io/adopt=true --kubeconfig admin.kubeconfig --service-namespace aggserver-system",
    "aggserver adopt status --kubeconfig admin.kubeconfig --service-namespace aggserver-system",
    "aggserver adopt release crontabs.stable.example.com --kubeconfig admin.kubeconfig --service-namespace aggserver-system",
    "aggserver adopt cleanup crontabs.stable.example.com --kubeconfig admin.kubeconfig --service-namespace aggserver-system",
    "aggserver serve --storage etcd --etcd-servers https://a:2379,https://b:2379,https://c:2379"
    " --etcd-cafile ca.crt --etcd-certfile client.crt --etcd-keyfile client.key --definitions DIR",
]

RUN = [
    *test_readme.RUNS,
    *test_cel_page.RUNS,
    *test_conversion_page.RUNS,
    *integration.RUNS,
    *test_doctor.RUNS,
    *test_users.RUNS,
    *test_controllers.RUNS,
    *test_envtest_command.RUNS,
    *test_python_page.RUNS,
    *test_python_running_page.RUNS,
    *test_reloading.RUNS,
    *on_a_cluster.RUNS,
    *test_python_types_page.RUNS,
]


def test_every_command_is_run_or_has_a_reason() -> None:
    """A reason for a command that no page shows any more goes, too."""
    shown = {command.text for command in commands()}
    known = [*RUN, *READ, *NOT_RUN]
    assert sorted(known) == sorted(set(known)), "a command stands in several places"
    assert shown - set(known) == set(), "a page shows these, and no test runs them"
    assert set(known) - shown == set(), "no page shows these any more"


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_every_block_says_what_it_is(page: str) -> None:
    """A command in a block without a language would be run by nobody."""
    languages = {block.language for block in blocks() if block.page == page}
    assert languages <= {"sh", "bash", "console", "text", "yaml", "python", "go", "mermaid"}


class Taken(Exception):
    """The parser has taken the options."""


@pytest.mark.parametrize("command", READ)
def test_the_options_of_a_command_that_takes_long(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program, *arguments = shlex.split(command)
    if program == "aggserver":
        options = parse([str(tmp_path) if word == "DIR" else word for word in arguments], {})
        if options.command == "serve":
            assert (options.storage, len(options.etcd_servers)) == ("etcd", 3)
        else:
            assert (options.kubeconfig, options.service_namespace) == (Path("admin.kubeconfig"), "aggserver-system")
        return
    read = argparse.ArgumentParser.parse_args

    def read_only(*given: Any) -> None:
        read(*given)
        raise Taken

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", read_only)
    _, module, *rest = arguments
    name = module if "." in module and not module.endswith(".history") else f"{module}.__main__"
    monkeypatch.setattr("sys.argv", [name, *rest])
    main = importlib.import_module(name).main
    with pytest.raises(Taken):
        main() if module == "tests.history" else main(rest)
