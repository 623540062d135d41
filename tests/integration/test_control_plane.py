"""The cluster itself, as every other integration test takes it for granted."""

from __future__ import annotations

import json

import pytest

from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.waiting import KUBECTL_LIMIT


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/apis/apiregistration.k8s.io/v1", "/apis/apiextensions.k8s.io/v1"])
def test_answers(control_plane: Cluster, path: str) -> None:
    assert control_plane.kubectl("get", "--raw", path).stdout


def test_front_proxy_is_published(control_plane: Cluster) -> None:
    data = control_plane.get("configmap", "-n", "kube-system", "extension-apiserver-authentication")["data"]
    assert "BEGIN CERTIFICATE" in data["requestheader-client-ca-file"]
    assert json.loads(data["requestheader-username-headers"]) == ["X-Remote-User"]


def test_users_have_their_name_groups_and_no_rights(control_plane: Cluster) -> None:
    jane = control_plane.user("jane", ["developers"])
    assert control_plane.user("jane", ["developers"]) == jane
    who = json.loads(control_plane.kubectl("auth", "whoami", "-o", "json", user=jane).stdout)["status"]["userInfo"]
    assert who["username"] == "jane"
    assert who["groups"] == ["developers", "system:authenticated"]
    refused = control_plane.kubectl("get", "secrets", user=jane, check=False)
    assert 'User "jane" cannot list resource "secrets"' in refused.stderr


def test_a_failed_command_shows_what_it_said(control_plane: Cluster) -> None:
    with pytest.raises(AssertionError, match='namespaces "nowhere" not found'):
        control_plane.kubectl("get", "namespace", "nowhere")


def test_namespaces_are_set_up(control_plane: Cluster, namespace: str) -> None:
    control_plane.kubectl("wait", "--for=create", "-n", namespace, "serviceaccount/default", KUBECTL_LIMIT)


def test_logs_are_at_hand(own_control_plane: ControlPlane) -> None:
    assert set(own_control_plane.log_tails()) == {"etcd", "kube-apiserver", "kube-controller-manager"}
