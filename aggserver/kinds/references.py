"""What Pods and PersistentVolumes refer to: the Secrets, ConfigMaps, claims and other objects that a kubelet reads for them.

Pure. Source: k8s.io/kubernetes pkg/api/v1/pod/util.go, pkg/api/v1/persistentvolume/util.go, pkg/api/pod/util.go, v1.36.3;
k8s.io/dynamic-resource-allocation resourceclaim/claim.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = [
    "MIRROR",
    "claim_names",
    "config_map_names",
    "ephemeral_claim",
    "is_mirror",
    "kubelet_secrets",
    "read_from_api",
    "resource_claim_names",
    "secret_names",
]

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of mirror Pods: what a kubelet makes of its static Pods."""
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")

# Sources of volumes -> the member that refers to a Secret.
_REFERENCES = {
    "cephfs": "secretRef",
    "cinder": "secretRef",
    "csi": "nodePublishSecretRef",
    "flexVolume": "secretRef",
    "iscsi": "secretRef",
    "rbd": "secretRef",
    "scaleIO": "secretRef",
    "storageos": "secretRef",
}


def is_mirror(pod: JSONMapping) -> bool:
    return MIRROR in (pod["metadata"].get("annotations") or {})


def secret_names(spec: JSONMapping) -> Iterator[str]:
    """The names of the Secrets that a Pod refers to; some may be ''. spec: of the Pod."""
    for each in spec.get("imagePullSecrets") or ():
        yield each.get("name") or ""
    yield from _of_containers(spec, "secretRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        yield (volume.get("azureFile") or {}).get("secretName") or ""
        yield (volume.get("secret") or {}).get("secretName") or ""
        for name, member in _REFERENCES.items():
            yield ((volume.get(name) or {}).get(member) or {}).get("name") or ""
        for source in _projected(volume):
            yield (source.get("secret") or {}).get("name") or ""


def config_map_names(spec: JSONMapping) -> Iterator[str]:
    """The names of the ConfigMaps that a Pod refers to; some may be ''."""
    yield from _of_containers(spec, "configMapRef", "configMapKeyRef")
    for volume in spec.get("volumes") or ():
        yield (volume.get("configMap") or {}).get("name") or ""
        for source in _projected(volume):
            yield (source.get("configMap") or {}).get("name") or ""


def _of_containers(spec: JSONMapping, whole: str, key: str) -> Iterator[str]:
    for container in (each for member in _CONTAINERS for each in spec.get(member) or ()):
        for source in container.get("envFrom") or ():
            yield (source.get(whole) or {}).get("name") or ""
        for variable in container.get("env") or ():
            yield ((variable.get("valueFrom") or {}).get(key) or {}).get("name") or ""


def _projected(volume: JSONMapping) -> Iterator[JSONObject]:
    yield from (volume.get("projected") or {}).get("sources") or ()


def claim_names(pod: JSONMapping) -> Iterator[str]:
    """The names of the PersistentVolumeClaims of a Pod."""
    for volume in pod["spec"].get("volumes") or ():
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            yield claim.get("claimName") or ""
        elif volume.get("ephemeral") is not None:
            yield ephemeral_claim(pod, volume)


def ephemeral_claim(pod: JSONMapping, volume: JSONMapping) -> str:
    """The name of the claim that is made for an ephemeral volume of a Pod."""
    return f"{pod['metadata']['name']}-{volume['name']}"


def resource_claim_names(pod: JSONMapping) -> Iterator[str]:
    """The names of the ResourceClaims of a Pod: those that it names, and those that were made for it."""
    status = pod.get("status") or {}
    made = {each.get("name"): each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()}
    for claim in pod["spec"].get("resourceClaims") or ():
        yield claim.get("resourceClaimName") or made.get(claim["name"]) or ""
    yield (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName") or ""


def kubelet_secrets(volume: JSONMapping) -> Iterator[tuple[str, str]]:
    """Namespace and name of the Secrets that a kubelet needs to mount a PersistentVolume with a claim."""
    spec = volume["spec"]
    of_claim = (spec.get("claimRef") or {}).get("namespace") or ""
    if (azure := spec.get("azureFile")) is not None:
        yield azure.get("secretNamespace") or of_claim, azure.get("secretName") or ""
    for source, namespace in _VOLUME_SECRETS.items():
        if reference := (spec.get(source) or {}).get("secretRef"):
            yield reference.get("namespace") or (of_claim if namespace else ""), reference.get("name") or ""
    for member in ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"):
        if reference := (spec.get("csi") or {}).get(member):
            yield reference.get("namespace") or "", reference.get("name") or ""


# Sources of PersistentVolumes with a `secretRef` -> whether the namespace of the claim stands for one that is missing.
_VOLUME_SECRETS: Mapping[str, bool] = {
    "cephfs": True,
    "cinder": False,
    "flexVolume": True,
    "iscsi": True,
    "rbd": True,
    "scaleIO": True,
    "storageos": False,
}

# Sources of volumes, and of projected ones, for which a kubelet reads other objects -> what upstream calls these.
_READ = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_READ_PROJECTED = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def read_from_api(spec: JSONMapping) -> str:
    """The kind of objects that a Pod refers to, the first that there is, as upstream names it; '' if it refers to none."""
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    if any(secret_names(spec)):
        return "secrets"
    if any(config_map_names(spec)):
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        for source, name in _READ.items():
            if volume.get(source) is not None:
                return name
        for projected in _projected(volume):
            for source, name in _READ_PROJECTED.items():
                if projected.get(source) is not None:
                    return name
    return ""
