"""The defaults that do not depend on other members, by Go type and member.

A member that is a pointer in Go gets its default if it is missing; other members also if they are zero.
Pure. Source: k8s.io/kubernetes pkg/apis/*/*/{defaults,zz_generated.defaults}.go, k8s.io/kube-aggregator
pkg/apis/apiregistration/v1/defaults.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["VALUES"]

# rw-r--r--, for the files of a volume.
_MODE = {"defaultMode": 0o644}
_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_TCP = {"protocol": "TCP"}
_ISCSI = {"iscsiInterface": "default"}
_RBD = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
_SCALE_IO = {"storageMode": "ThinProvisioned", "fsType": "xfs"}
_HISTORY = {"replicas": 1, "revisionHistoryLimit": 10}
_EXACT = {"allocationMode": "ExactCount"}
_ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io"}

VALUES: Mapping[str, Mapping[str, Any]] = {
    # core: pods
    "core/v1.PodSpec": {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
    },
    "core/v1.Container": _CONTAINER,
    "core/v1.EphemeralContainer": _CONTAINER,
    "core/v1.ContainerPort": _TCP,
    "core/v1.Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "core/v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core/v1.GRPCAction": {"service": ""},
    "core/v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core/v1.FileKeySelector": {"optional": False},
    # core: volumes
    "core/v1.SecretVolumeSource": _MODE,
    "core/v1.ConfigMapVolumeSource": _MODE,
    "core/v1.DownwardAPIVolumeSource": _MODE,
    "core/v1.ProjectedVolumeSource": _MODE,
    "core/v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core/v1.HostPathVolumeSource": {"type": ""},
    "core/v1.ISCSIVolumeSource": _ISCSI,
    "core/v1.ISCSIPersistentVolumeSource": _ISCSI,
    "core/v1.RBDVolumeSource": _RBD,
    "core/v1.RBDPersistentVolumeSource": _RBD,
    "core/v1.AzureDiskVolumeSource": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "core/v1.ScaleIOVolumeSource": _SCALE_IO,
    "core/v1.ScaleIOPersistentVolumeSource": _SCALE_IO,
    "core/v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core/v1.PersistentVolumeClaimStatus": {"phase": "Pending"},
    "core/v1.PersistentVolumeStatus": {"phase": "Pending"},
    # core: others
    "core/v1.EndpointPort": _TCP,
    "core/v1.NamespaceStatus": {"phase": "Active"},
    "core/v1.ReplicationControllerSpec": {"replicas": 1},
    "core/v1.Secret": {"type": "Opaque"},
    # apps
    "apps/v1.DaemonSetSpec": {"revisionHistoryLimit": 10},
    "apps/v1.DeploymentSpec": {**_HISTORY, "progressDeadlineSeconds": 600},
    "apps/v1.ReplicaSetSpec": {"replicas": 1},
    "apps/v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    "apps/v1.StatefulSetSpec": {**_HISTORY, "podManagementPolicy": "OrderedReady", "persistentVolumeClaimRetentionPolicy": {}},
    # batch
    "batch/v1.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "batch/v1.PodFailurePolicyOnPodConditionsPattern": {"status": "True"},
    # other groups
    "apiregistration/v1.ServiceReference": {"port": 443},
    "authentication/v1.TokenRequestSpec": {"expirationSeconds": 3600},
    "autoscaling/v1.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "autoscaling/v2.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "discovery/v1.EndpointPort": {"name": "", **_TCP},
    "flowcontrol/v1.ExemptPriorityLevelConfiguration": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    "flowcontrol/v1.FlowSchemaSpec": {"matchingPrecedence": 1000},
    "flowcontrol/v1.LimitedPriorityLevelConfiguration": {"nominalConcurrencyShares": 30, "lendablePercent": 0},
    "flowcontrol/v1.QueuingConfiguration": {"handSize": 8, "queues": 64, "queueLengthLimit": 50},
    "networking/v1.IngressClassParametersReference": {"scope": "Cluster"},
    "networking/v1.NetworkPolicyPort": _TCP,
    "rbac/v1.RoleRef": _ROLE_REF,
    "resource/v1.DeviceSubRequest": _EXACT,
    "resource/v1.DeviceToleration": {"operator": "Equal"},
    "resource/v1.ExactDeviceRequest": _EXACT,
    "scheduling/v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "storage/v1.CSIDriverSpec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent"],
        "requiresRepublish": False,
        "seLinuxMount": False,
    },
    "storage/v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
}
