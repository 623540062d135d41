"""The options of a Deployment's server, as far as they can be known from outside of the pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aggserver.commands.doctor.arguments import options_of


def template(*arguments: str, command: list[str] | None = None, env: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    container = {"name": "aggserver", "args": list(arguments), "command": command, "env": env}
    return {"spec": {"containers": [{"name": "sidecar", "args": ["x"]}, container]}}


NAMESPACE: dict[str, Any] = {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
SECRET: dict[str, Any] = {
    "name": "AGGSERVER_ETCD_SERVERS",
    "valueFrom": {"secretKeyRef": {"name": "aggserver-etcd", "key": "servers"}},
}
HIDDEN: dict[str, Any] = {
    "name": "AGGSERVER_MAX_REQUESTS_INFLIGHT",
    "valueFrom": {"configMapKeyRef": {"name": "x", "key": "most"}},
}


def test_references_are_the_kubelets() -> None:
    found = options_of(template("serve", "--service-namespace=$(POD_NAMESPACE)", "--data=$$(HOME)", env=[NAMESPACE]), "ns")
    assert found.options is not None
    assert (found.options.service_namespace, found.options.data, found.problem) == ("ns", "$$(HOME)", "")


def test_a_command_and_variables() -> None:
    env = [{"name": "AGGSERVER_ADOPT", "value": "a=b"}, SECRET]
    found = options_of(template("--storage=etcd", command=["aggserver", "serve"], env=env), "ns")
    assert found.options is not None
    assert (found.options.adopt, len(found.options.etcd_servers)) == ("a=b", 1)


@pytest.mark.parametrize(
    "pod",
    [
        template("serve", "--config", "/etc/aggserver.yaml"),
        template("serve", env=[{"name": "AGGSERVER_CONFIG", "value": "/etc/aggserver.yaml"}]),
        template("serve", "--help"),
        template("serve", env=[HIDDEN]),
        template("run"),
    ],
    ids=["a file", "a file by a variable", "help", "a value that is hidden", "another program"],
)
def test_what_is_not_known(pod: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert options_of(pod, "ns") == (None, "")


def test_what_the_server_refuses() -> None:
    found = options_of(template("serve", "--adopt=", "--kube-apiservers=10.0.0.1"), "ns")
    assert found == (
        None,
        "--kube-apiservers: must be URLs such as https://host:6443: 10.0.0.1 has no scheme; write https://10.0.0.1",
    )


def test_paths_stay_as_they_are() -> None:
    found = options_of(template("serve", "--definitions=/etc/aggserver/definitions"), "ns")
    assert found.options is not None
    assert found.options.definitions == Path("/etc/aggserver/definitions")
