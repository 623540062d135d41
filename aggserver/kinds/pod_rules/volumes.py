"""Volumes of Pods, and the mounts and devices by which containers use them.

A volume has one source. Sources are visited in upstream's order, that of `_SOURCES`. Those without a function there are judged by
the table of `scheme/validation.py`.
Pure. Source: ValidateVolumes, validateVolumeSource, ValidateVolumeMounts and ValidateVolumeDevices in k8s.io/kubernetes
pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from aggserver.kinds.pod_rules.claims import claim_spec_problems
from aggserver.kinds.pod_rules.environment import FIELDS_OF_FILES, field_problems, resource_field_problems
from aggserver.kinds.pod_rules.texts import (
    described,
    file_mode,
    named,
    no_backsteps,
    not_found,
    relative_path,
    unreserved_path,
)
from aggserver.meta import quantity
from aggserver.meta.field import FieldError, Path, duplicate, forbidden, invalid, not_supported, required, too_long
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_label, dns1123_subdomain
from aggserver.scheme.object_meta import validate_annotations, validate_labels
from aggserver.scheme.types import lookup
from aggserver.scheme.validation import validate_part

__all__ = ["device_problems", "mount_problems", "volume_problems"]

_MORE = "may not specify more than 1 volume type"
_HOST_PATHS = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_PULLS = ("Always", "IfNotPresent", "Never")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
_FEWEST_SECONDS, _MOST_SECONDS = 600, 2**32
_INITIATORS = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9.-]+:[^,;*&$|\t\n\f\r ]+").fullmatch,
    "eui": re.compile("eui.[A-Za-z0-9]{16}").fullmatch,
    "naa": re.compile("naa.[A-Za-z0-9]{32}").fullmatch,
}
_MAX_DRIVER = 63

Volumes = Mapping[str, JSONMapping]


def volume_problems(volumes: Sequence[JSONMapping], pod: str, path: Path) -> tuple[Volumes, list[FieldError]]:
    """The volumes without errors by name, and the errors. pod: the name of the Pod, '' if it is not known."""
    made = {f"{pod}-{volume.get('name') or ''}" for volume in volumes if volume.get("ephemeral") is not None} if pod else set()
    right: dict[str, JSONMapping] = {}
    problems: list[FieldError] = []
    for index, volume in enumerate(volumes):
        where, name = path.index(index), volume.get("name") or ""
        found = list(_volume(volume, name, pod, where))
        if not name:
            found.append(required(where.child("name")))
        else:
            found += named(where.child("name"), name, dns1123_label)
        if name in right:
            found.append(duplicate(where.child("name"), name))
        if not found:
            right[name] = volume
        problems += found
        if made and (claim := (volume.get("persistentVolumeClaim") or {}).get("claimName")) in made:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            problems.append(invalid(where.child("persistentVolumeClaim").child("claimName"), claim, text))
    return right, problems


def _volume(volume: JSONMapping, name: str, pod: str, path: Path) -> Iterator[FieldError]:
    count = 0
    for kind, rule in _SOURCES.items():
        source = volume.get(kind)
        if source is None:
            continue
        if count and kind != "emptyDir":
            yield forbidden(path.child(kind), _MORE)
        else:
            where = path.child("persistentDisk" if kind == "gcePersistentDisk" else kind)
            yield from rule(source, where) if rule is not None else _table(source, kind, where)
            if kind == "ephemeral" and pod and name:
                yield from _claim_name(f"{pod}-{name}", name, path)
        count += 1
        if kind == "iscsi" and source.get("initiatorName") is not None and _is_long(name, source.get("targetPortal") or ""):
            length = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters"
            yield invalid(path.child("name"), name, f"{length} if iscsi.initiatorName is specified.")
    if not count:
        yield required(path, "must specify a volume type")


def _is_long(name: str, portal: str) -> bool:
    return len(f"{name}:{portal}".encode()) > 64


def _claim_name(claim: str, name: str, path: Path) -> Iterator[FieldError]:
    for text in dns1123_subdomain(claim):
        yield invalid(path.child("name"), name, f'PVC name "{claim}": {text}')


_TYPES = {
    "awsElasticBlockStore": "AWSElasticBlockStoreVolumeSource",
    "azureFile": "AzureFileVolumeSource",
    "cephfs": "CephFSVolumeSource",
    "glusterfs": "GlusterfsVolumeSource",
    "persistentVolumeClaim": "PersistentVolumeClaimVolumeSource",
    "photonPersistentDisk": "PhotonPersistentDiskVolumeSource",
    "portworxVolume": "PortworxVolumeSource",
    "rbd": "RBDVolumeSource",
    "scaleIO": "ScaleIOVolumeSource",
    "vsphereVolume": "VsphereVirtualDiskVolumeSource",
}


def _table(source: JSONMapping, kind: str, path: Path) -> Iterator[FieldError]:
    return validate_part(source, lookup(f"core/v1.{_TYPES[kind]}"), path)


def _empty_dir(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    limit = source.get("sizeLimit")
    if limit is not None and quantity.parse(str(limit)).sign() < 0:
        yield forbidden(path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity")


def _host_path(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    text, kind = source.get("path") or "", source.get("type") or ""
    if not text:
        yield required(path.child("path"))
        return
    yield from no_backsteps(text, path.child("path"))
    if kind not in _HOST_PATHS:
        yield not_supported(path.child("type"), kind, _HOST_PATHS)


def _disk(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    if not source.get("pdName"):
        yield required(path.child("pdName"))
    if not 0 <= (partition := source.get("partition") or 0) <= 255:
        yield invalid(path.child("partition"), partition, "must be between 1 and 255, inclusive")


def _git_repo(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    if not source.get("repository"):
        yield required(path.child("repository"))
    yield from relative_path(source.get("directory") or "", path.child("directory"))


def _nfs(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    for name in ("server", "path"):
        if not source.get(name):
            yield required(path.child(name))
    if not (text := source.get("path") or "").startswith("/"):
        yield invalid(path.child("path"), text, "must be an absolute path")


def _iscsi(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    if not source.get("targetPortal"):
        yield required(path.child("targetPortal"))
    name = source.get("iqn") or ""
    if not name:
        yield required(path.child("iqn"))
    else:
        yield from _initiator(name, path.child("iqn"))
    if not 0 <= (lun := source.get("lun") or 0) <= 255:
        yield invalid(path.child("lun"), lun, "must be between 0 and 255, inclusive")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        yield required(path.child("secretRef"))
    if (initiator := source.get("initiatorName")) is not None:
        yield from _initiator(initiator, path.child("initiatorname"))


def _initiator(name: str, path: Path) -> Iterator[FieldError]:
    is_right = _INITIATORS.get(name[:3])
    if is_right is None:
        yield invalid(path, name, "must be valid format starting with iqn, eui, or naa")
    elif not is_right(name):
        yield invalid(path, name, "must be valid format")


def _files(source: JSONMapping, path: Path, name: str) -> Iterator[FieldError]:
    """Of a Secret or a ConfigMap. name: the member with its name."""
    if not source.get(name):
        yield required(path.child(name))
    yield from file_mode(source.get("defaultMode"), path.child("defaultMode"))
    for index, item in enumerate(source.get("items") or ()):
        yield from _key_to_path(item, path.child("items").index(index))


def _secret(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    return _files(source, path, "secretName")


def _config_map(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    return _files(source, path, "name")


def _key_to_path(item: JSONMapping, path: Path) -> Iterator[FieldError]:
    for name in ("key", "path"):
        if not item.get(name):
            yield required(path.child(name))
    yield from unreserved_path(item.get("path") or "", path.child("path"))
    yield from file_mode(item.get("mode"), path.child("mode"))


def _downward(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    yield from file_mode(source.get("defaultMode"), path.child("defaultMode"))
    for item in source.get("items") or ():
        yield from _downward_file(item, path)


def _downward_file(item: JSONMapping, path: Path) -> Iterator[FieldError]:
    """As upstream, its errors have no index."""
    if not item.get("path"):
        yield required(path.child("path"))
    yield from unreserved_path(item.get("path") or "", path.child("path"))
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        yield from field_problems(field, FIELDS_OF_FILES, path.child("fieldRef"))
        if resource is not None:
            yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif resource is not None:
        yield from resource_field_problems(resource, path.child("resourceFieldRef"), in_file=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from file_mode(item.get("mode"), path.child("mode"))


def _projected(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    yield from file_mode(source.get("defaultMode"), path.child("defaultMode"))
    taken = set[str]()
    for index, each in enumerate(source.get("sources") or ()):
        yield from _projection(each, taken, path, path.child("sources").index(index))


def _projection(source: JSONMapping, taken: set[str], path: Path, where: Path) -> Iterator[FieldError]:
    """The errors of one source. taken: the paths of files in the volume."""

    def conflict(file: str, shown: str) -> Iterator[FieldError]:
        if file in taken:
            yield invalid(path, shown, "conflicting duplicate paths")
        elif file:
            taken.add(file)

    count = 0
    for kind in ("secret", "configMap"):
        if (part := source.get(kind)) is None:
            continue
        count += 1
        if not part.get("name"):
            yield required(where.child(kind).child("name"))
        for index, item in enumerate(part.get("items") or ()):
            yield from _key_to_path(item, where.child(kind).child("items").index(index))
            yield from conflict(item.get("path") or "", part.get("name") or "")
    if (part := source.get("downwardAPI")) is not None:
        count += 1
        for item in part.get("items") or ():
            yield from _downward_file(item, where.child("downwardAPI"))
            yield from conflict(item.get("path") or "", item.get("path") or "")
    if (part := source.get("serviceAccountToken")) is not None:
        count += 1
        yield from _token(part, path, where.child("serviceAccountToken"))
    if (part := source.get("clusterTrustBundle")) is not None:
        count += 1
    if (part := source.get("podCertificate")) is not None:
        count += 1
    if count > 1:
        yield forbidden(where, "may not specify more than 1 volume type per source")


def _token(token: JSONMapping, path: Path, where: Path) -> Iterator[FieldError]:
    seconds = token.get("expirationSeconds") or 0
    if seconds < _FEWEST_SECONDS:
        yield invalid(where.child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes")
    if seconds > _MOST_SECONDS:
        yield invalid(where.child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds")
    if not token.get("path"):
        yield required(path.child("path"))
    else:
        yield from unreserved_path(token["path"], path.child("path"))


def _csi(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    driver = source.get("driver") or ""
    if not driver:
        yield required(path.child("driver"))
    else:
        if len(driver.encode()) > _MAX_DRIVER:
            yield too_long(path.child("driver"), _MAX_DRIVER)
        yield from described(path.child("driver"), driver, dns1123_subdomain(driver.lower()))
    if (secret := source.get("nodePublishSecretRef")) is not None:
        if not secret.get("name"):
            yield required(path.child("nodePublishSecretRef", "name"))
        else:
            yield from named(path.child("name"), secret["name"], dns1123_subdomain)


def _ephemeral(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        yield required(path.child("volumeClaimTemplate"))
        return
    where, metadata = path.child("volumeClaimTemplate"), template.get("metadata") or {}
    yield from validate_annotations(metadata.get("annotations") or {}, where.child("metadata").child("annotations"))
    yield from validate_labels(metadata.get("labels") or {}, where.child("metadata").child("labels"))
    yield from claim_spec_problems(template.get("spec") or {}, where.child("spec"))


def _image(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    policy = source.get("pullPolicy") or ""
    if not policy:
        yield required(path.child("pullPolicy"))
    elif policy not in _PULLS:
        yield not_supported(path.child("pullPolicy"), policy, _PULLS)


# --- sources that drivers have replaced ---


def _flocker(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    name, uid = source.get("datasetName") or "", source.get("datasetUUID")
    if not name and not uid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uid:
        yield invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        yield invalid(path.child("datasetName"), name, "must not contain '/'")


def _fibre(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    names, ids, lun = source.get("targetWWNs") or [], source.get("wwids"), source.get("lun")
    if not names and not ids:
        yield required(path.child("targetWWNs"), "must specify either targetWWNs or wwids, but not both")
    if names and ids:
        yield invalid(path.child("targetWWNs"), names, "targetWWNs and wwids can not be specified simultaneously")
    if names and lun is None:
        yield required(path.child("lun"), "lun is required if targetWWNs is specified")
    elif names and lun is not None and not 0 <= lun <= 255:
        yield invalid(path.child("lun"), lun, "must be between 0 and 255, inclusive")


def _quobyte(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    registry, text = source.get("registry") or "", "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        yield required(path.child("registry"), text)
    elif len((source.get("tenant") or "").encode()) >= 65:
        yield required(path.child("tenant"), "must be a UUID and may not exceed a length of 64 characters")
    else:
        yield from (invalid(path.child("registry"), registry, text) for pair in registry.split(",") if not _is_pair(pair))
    if not source.get("volume"):
        yield required(path.child("volume"))


def _is_pair(text: str) -> bool:
    """Whether it is host:port, where a host with colons is in brackets."""
    host, colon, _ = text.rpartition(":")
    if host.startswith("["):
        return bool(colon) and host.endswith("]") and "[" not in host[1:] and "]" not in host[:-1]
    return bool(colon) and not {":", "[", "]"} & set(host) and not {"[", "]"} & set(text)


def _azure_disk(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    kind, address, where = source.get("kind"), source.get("diskURI") or "", path.child("diskURI")
    if not source.get("diskName"):
        yield required(path.child("diskName"))
    if not address:
        yield required(where)
    for name, values in (("cachingMode", ("None", "ReadOnly", "ReadWrite")), ("kind", ("Dedicated", "Managed", "Shared"))):
        if (value := source.get(name)) is not None and value not in values:
            yield not_supported(path.child(name), value, values)
    if kind == "Managed" and not address.startswith("/subscriptions/"):
        disk = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        yield not_supported(where, address, (disk,))
    if kind is not None and kind != "Managed" and not address.startswith("https://"):
        blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        yield not_supported(where, address, (blob,))


def _flex(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    if not source.get("driver"):
        yield required(path.child("driver"))
    for key in source.get("options") or ():
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            yield invalid(path.child("options").key(key), key, "kubernetes.io and k8s.io namespaces are reserved")


def _cinder(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    if not source.get("volumeID"):
        yield required(path.child("volumeID"))
    yield from _secret_reference(source, path)


def _storage_os(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    if not source.get("volumeName"):
        yield required(path.child("volumeName"))
    for member in ("volumeName", "volumeNamespace"):
        if name := source.get(member):
            yield from named(path.child(member), name, dns1123_label)
    yield from _secret_reference(source, path)


def _secret_reference(source: JSONMapping, path: Path) -> Iterator[FieldError]:
    secret = source.get("secretRef")
    if secret is not None and not secret.get("name"):
        yield required(path.child("secretRef", "name"))


# In upstream's order. None: what the table of checks says.
_SOURCES: Mapping[str, Callable[[JSONMapping, Path], Iterator[FieldError]] | None] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": _git_repo,
    "gcePersistentDisk": _disk,
    "awsElasticBlockStore": None,
    "secret": _secret,
    "nfs": _nfs,
    "iscsi": _iscsi,
    "glusterfs": None,
    "flocker": _flocker,
    "persistentVolumeClaim": None,
    "rbd": None,
    "cinder": _cinder,
    "cephfs": None,
    "quobyte": _quobyte,
    "downwardAPI": _downward,
    "fc": _fibre,
    "flexVolume": _flex,
    "configMap": _config_map,
    "azureFile": None,
    "vsphereVolume": None,
    "photonPersistentDisk": None,
    "portworxVolume": None,
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "projected": _projected,
    "scaleIO": None,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}


# --- in containers ---


def mount_problems(container: JSONMapping, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    """The errors of a container's volumeMounts. volumes: those without errors. As upstream, some paths have no index."""
    devices = container.get("volumeDevices") or ()
    device_names = {device.get("name") or "" for device in devices}
    device_paths = {device.get("devicePath") or "" for device in devices}
    taken = set[str]()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where, name, at = path.index(index), mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(where.child("name"))
        if name not in volumes:
            yield not_found(where.child("name"), name)
        if not at:
            yield required(where.child("mountPath"))
        if at in taken:
            yield invalid(where.child("mountPath"), at, "must be unique")
        taken.add(at)
        if name in device_names:
            yield invalid(where.child("name"), name, "must not already exist in volumeDevices")
        if at in device_paths:
            yield invalid(where.child("mountPath"), at, "must not already exist as a path in volumeDevices")
        yield from _sub_paths(mount, path, where)
        yield from _propagation(mount, container, path)
        yield from _recursive(mount, path.child("recursiveReadOnly"))


def _sub_paths(mount: JSONMapping, path: Path, where: Path) -> Iterator[FieldError]:
    sub_path, expression = mount.get("subPath"), mount.get("subPathExpr")
    if sub_path:
        yield from relative_path(sub_path, path.child("subPath"))
    if expression:
        if sub_path:
            yield invalid(where.child("subPathExpr"), expression, "subPathExpr and subPath are mutually exclusive")
        yield from relative_path(expression, path.child("subPathExpr"))


def _propagation(mount: JSONMapping, container: JSONMapping, path: Path) -> Iterator[FieldError]:
    mode, where = mount.get("mountPropagation"), path.child("mountPropagation")
    if mode is None:
        return
    if mode not in _PROPAGATIONS:
        yield not_supported(where, mode, _PROPAGATIONS)
    if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        yield forbidden(where, "Bidirectional mount propagation is available only to privileged containers")


def _recursive(mount: JSONMapping, path: Path) -> Iterator[FieldError]:
    mode = mount.get("recursiveReadOnly")
    if mode in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield forbidden(path, "may only be specified when readOnly is true")
        if mount.get("mountPropagation") not in (None, "None"):
            yield forbidden(path, "may only be specified when mountPropagation is None or not specified")
    elif mode is not None and mode != "Disabled":
        yield not_supported(path, mode, _READ_ONLY)


def device_problems(container: JSONMapping, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    mounts = container.get("volumeMounts") or ()
    mount_names = {mount.get("name") or "" for mount in mounts}
    mount_paths = {mount.get("mountPath") or "" for mount in mounts}
    names, paths = set[str](), set[str]()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        where, name, at = path.index(index), device.get("name") or "", device.get("devicePath") or ""
        volume = volumes.get(name)
        if not name:
            yield required(where.child("name"))
        if name in names:
            yield invalid(where.child("name"), name, "must be unique")
        if volume is None:
            yield not_found(where.child("name"), name)
        elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(where.child("name"), name, text)
        if not at:
            yield required(where.child("devicePath"))
        if at in paths:
            yield invalid(where.child("devicePath"), at, "must be unique")
        if at and any(no_backsteps(at, path)):
            yield invalid(where.child("devicePath"), at, "can not contain backsteps ('..')")
        else:
            paths.add(at)
        if name in mount_names:
            yield invalid(where.child("name"), name, "must not already exist in volumeMounts")
        if at in mount_paths:
            yield invalid(where.child("devicePath"), at, "must not already exist as a path in volumeMounts")
        if name:
            names.add(name)
