"""What Pods and volumes refer to. tests/integration/test_same_nodes.py compares it with kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds import references

POD: Any = {
    "metadata": {"name": "p"},
    "spec": {
        "imagePullSecrets": [{"name": "images"}, {}],
        "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "init"}}, {"configMapRef": {"name": "init-map"}}]}],
        "containers": [
            {
                "name": "c",
                "env": [
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "key"}}},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "key-map"}}},
                    {"name": "C", "value": "x"},
                ],
            }
        ],
        "ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": "debug"}}]}],
        "volumes": [
            {"name": "a", "secret": {"secretName": "mounted"}},
            {"name": "b", "projected": {"sources": [{"secret": {"name": "one"}}, {"configMap": {"name": "two"}}]}},
            {"name": "c", "configMap": {"name": "mounted-map"}},
            {"name": "d", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "f", "azureFile": {"secretName": "azure"}},
            {"name": "g", "flexVolume": {"secretRef": {"name": "flex"}}},
        ],
        "resourceClaims": [
            {"name": "r", "resourceClaimName": "named"},
            {"name": "s", "resourceClaimTemplateName": "t"},
            {"name": "u"},
        ],
    },
    "status": {
        "resourceClaimStatuses": [{"name": "s", "resourceClaimName": "made"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
    },
}


def test_what_a_pod_refers_to() -> None:
    spec = POD["spec"]
    assert list(filter(None, references.secret_names(spec))) == [
        "images",
        "init",
        "key",
        "debug",
        "mounted",
        "one",
        "azure",
        "flex",
    ]
    assert list(filter(None, references.config_map_names(spec))) == ["init-map", "key-map", "two", "mounted-map"]
    assert list(references.claim_names(POD)) == ["claim", "p-e"]
    assert list(filter(None, references.resource_claim_names(POD))) == ["named", "made", "extended"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"csi": {"nodePublishSecretRef": {"namespace": "n", "name": "a"}, "controllerPublishSecretRef": {"name": "b"}}},
            [("n", "a")],
        ),
        ({"csi": {"nodeStageSecretRef": {"name": "a"}, "nodeExpandSecretRef": {"name": "b"}}}, [("", "a"), ("", "b")]),
        ({"azureFile": {"secretName": "a"}}, [("ns", "a")]),
        ({"azureFile": {"secretName": "a", "secretNamespace": "n"}}, [("n", "a")]),
        ({"rbd": {"secretRef": {"name": "a"}}}, [("ns", "a")]),
        ({"cinder": {"secretRef": {"name": "a"}}}, [("", "a")]),
        ({"hostPath": {"path": "/x"}}, []),
    ],
)
def test_what_a_kubelet_needs_to_mount_a_volume(source: Any, expected: list[tuple[str, str]]) -> None:
    volume = {"metadata": {"name": "v"}, "spec": {"claimRef": {"namespace": "ns", "name": "c"}, **source}}
    assert list(references.kubelet_secrets(volume)) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"serviceAccountName": "a"}, "serviceaccounts"),
        ({"resourceClaims": [{"name": "r"}]}, "resourceclaims"),
        ({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, "csidrivers (via CSI volumes)"),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {}}]}}]}, "clustertrustbundles"),
        (
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "ephemeral": {}}]},
            "persistentvolumeclaims (via ephemeral volumes)",
        ),
        ({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "projected": {"sources": [{"downwardAPI": {}}]}}]}, ""),
    ],
)
def test_what_is_read_from_the_api(spec: Any, expected: str) -> None:
    assert references.read_from_api(spec) == expected
