"""Which PersistentVolume a claim gets, and what both say of each other when they are bound.

Pure. Source: k8s.io/kubernetes pkg/controller/volume/persistentvolume/{index,pv_controller}.go, v1.36.3; k8s.io/component-helpers
storage/volume/{helpers,pv_helpers}.go, v0.36.3.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from aggserver.meta import quantity
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import LabelSelector, SelectorError

__all__ = [
    "BIND_COMPLETED",
    "AvailableVolumes",
    "Reclaim",
    "annotations_of",
    "bound_claim",
    "bound_volume",
    "claim_class",
    "claim_ref_key",
    "claim_status",
    "fits_reserved",
    "is_bound_to",
    "mismatch",
    "reclaim",
    "selector_of",
    "unbound_volume",
    "volume_class",
]

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY, _MIGRATED_TO = "pv.kubernetes.io/provisioned-by", "pv.kubernetes.io/migrated-to"
_CLASS = "volume.beta.kubernetes.io/storage-class"
_DELETABLE_PATH = re.compile(r"/tmp/.+")  # noqa: S108 - as upstream has it, of a node that does not exist here
_SCALE = 9  # sizes are compared in billionths, the smallest unit of a quantity

# What of a volume must be equal to the claim's: class, mode, class of attributes.
_Group = tuple[str, str, str]


def annotations_of(obj: JSONObject) -> Mapping[str, str]:
    found: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return found


def claim_class(claim: JSONObject) -> str | None:
    """The name of the claim's class, '' for none, None if it says nothing, and gets the default one."""
    name: str | None = annotations_of(claim).get(_CLASS, claim["spec"].get("storageClassName"))
    return name


def volume_class(volume: JSONObject) -> str:
    return annotations_of(volume).get(_CLASS, volume["spec"].get("storageClassName") or "")


def _size(resources: Mapping[str, str]) -> int:
    """The storage in billionths of a byte."""
    number = quantity.parse(resources.get("storage") or "0")
    scale = number.scale + _SCALE
    size: int = number.value * 10**scale if scale >= 0 else number.value // 10**-scale
    return size


def _requested(claim: JSONObject) -> int:
    return _size((claim["spec"].get("resources") or {}).get("requests") or {})


def _group_of_claim(claim: JSONObject) -> _Group:
    spec = claim["spec"]
    return claim_class(claim) or "", spec.get("volumeMode") or "Filesystem", spec.get("volumeAttributesClassName") or ""


def _group_of_volume(volume: JSONObject) -> _Group:
    spec = volume["spec"]
    return volume_class(volume), spec.get("volumeMode") or "Filesystem", spec.get("volumeAttributesClassName") or ""


def _modes(obj: JSONObject) -> frozenset[str]:
    return frozenset(obj["spec"].get("accessModes") or ())


def mismatch(volume: JSONObject, claim: JSONObject) -> str:
    """Why a claim can't have the volume that it names, in upstream's words; '' if it can."""
    of_claim, of_volume = _group_of_claim(claim), _group_of_volume(volume)
    if "deletionTimestamp" in volume["metadata"]:
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if _size(volume["spec"].get("capacity") or {}) < _requested(claim):
        return "requested PV is too small"
    if of_claim[0] != of_volume[0]:
        return "storageClassName does not match"
    if of_claim[2] != of_volume[2]:
        return "volumeAttributesClassName does not match"
    if of_claim[1] != of_volume[1]:
        return "incompatible volumeMode"
    return "" if _modes(claim) <= _modes(volume) else "incompatible accessMode"


def claim_ref_key(volume: JSONObject) -> str:
    """The key of the claim that a volume names, '' for none."""
    reference = volume["spec"].get("claimRef") or {}
    return f"{reference.get('namespace') or ''}/{reference['name']}" if reference.get("name") else ""


def is_bound_to(volume: JSONObject, claim: JSONObject) -> bool:
    """Whether a volume names a claim; perhaps only its name, if a client has reserved it."""
    reference, metadata = volume["spec"].get("claimRef") or {}, claim["metadata"]
    if claim_ref_key(volume) != f"{metadata['namespace']}/{metadata['name']}":
        return False
    return bool((reference.get("uid") or metadata["uid"]) == metadata["uid"])


def selector_of(claim: JSONObject) -> LabelSelector | None:
    """The claim's selector of volumes; None if it matches none."""
    try:
        return LabelSelector.from_object(claim["spec"].get("selector") or {})
    except SelectorError:
        return None


def fits_reserved(volume: JSONObject, claim: JSONObject) -> bool:
    """Whether a claim can have a volume that a client has reserved for it. As upstream, the class may be another one."""
    is_large = _size(volume["spec"].get("capacity") or {}) >= _requested(claim)
    is_equal = _group_of_volume(volume)[1:] == _group_of_claim(claim)[1:]
    return is_large and is_equal and "deletionTimestamp" not in volume["metadata"] and _modes(claim) <= _modes(volume)


class AvailableVolumes:
    """The volumes that any claim may have, by what must be equal, and by their sizes."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[_Group, frozenset[str], int]] = {}
        self._sorted: dict[_Group, dict[frozenset[str], list[tuple[int, str]]]] = {}

    def put(self, name: str, volume: JSONObject | None) -> bool:
        """Set what a volume is now, None for a deleted one. Returns whether it is available and was not so before."""
        place = None
        if volume is not None and _is_available(volume):
            place = _group_of_volume(volume), _modes(volume), _size(volume["spec"].get("capacity") or {})
        before = self._places.get(name)
        if place == before:
            return False
        if before is not None:
            del self._places[name]
            group, modes, size = before
            names = self._sorted[group][modes]
            del names[bisect.bisect_left(names, (size, name))]
            if not names:
                del self._sorted[group][modes]
                if not self._sorted[group]:
                    del self._sorted[group]
        if place is not None:
            self._places[name] = place
            group, modes, size = place
            bisect.insort(self._sorted.setdefault(group, {}).setdefault(modes, []), (size, name))
        return place is not None

    def count(self, name: str) -> int:
        """How many there are of a class."""
        groups = [modes for group, modes in self._sorted.items() if group[0] == name]
        return sum(len(names) for modes in groups for names in modes.values())

    def candidates(self, claim: JSONObject) -> Iterator[str]:
        """The names of those that fit a claim but for its selector, the best first: few access modes, then the smallest."""
        requested, wanted = _requested(claim), _modes(claim)
        of_group = self._sorted.get(_group_of_claim(claim), {})
        for modes in sorted((each for each in of_group if wanted <= each), key=len):
            names = of_group[modes]
            for index in range(bisect.bisect_left(names, (requested, "")), len(names)):
                yield names[index][1]


def _is_available(volume: JSONObject) -> bool:
    is_free = not volume["spec"].get("claimRef") and "deletionTimestamp" not in volume["metadata"]
    return is_free and (volume.get("status") or {}).get("phase") == "Available"


# --- what is written ---


def _annotated(obj: JSONObject, **more: str) -> JSONObject:
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**annotations_of(obj), **more}}}


def bound_volume(volume: JSONObject, claim: JSONObject) -> JSONObject | None:
    """A volume that is bound to a claim; None if it says so already."""
    metadata = claim["metadata"]
    by_controller = not is_bound_to(volume, claim)
    if not by_controller and (volume["spec"]["claimRef"].get("uid") or "") == metadata["uid"]:
        return None
    reference = {name: metadata[name] for name in ("namespace", "name", "uid", "resourceVersion")}
    changed = {**volume["spec"], "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **reference}}
    changed_volume = {**volume, "spec": changed}
    return _annotated(changed_volume, **{_BY_CONTROLLER: "yes"}) if by_controller else changed_volume


def unbound_volume(volume: JSONObject) -> JSONObject:
    """A volume without its claim: without the reference if the controller wrote that, else without the claim's uid."""
    metadata, spec = volume["metadata"], dict(volume["spec"])
    kept = {name: value for name, value in annotations_of(volume).items() if name != _BY_CONTROLLER}
    if _BY_CONTROLLER in annotations_of(volume):
        del spec["claimRef"]
    else:
        spec["claimRef"] = {name: value for name, value in spec["claimRef"].items() if name != "uid"}
    changed = {name: value for name, value in metadata.items() if name != "annotations"} | ({"annotations": kept} if kept else {})
    return {**volume, "metadata": changed, "spec": spec}


def bound_claim(claim: JSONObject, volume: str) -> JSONObject | None:
    """A claim that is bound to a volume; None if it says so already."""
    is_named = claim["spec"].get("volumeName") == volume
    if is_named and BIND_COMPLETED in annotations_of(claim):
        return None
    own = {} if is_named else {_BY_CONTROLLER: "yes"}
    return _annotated({**claim, "spec": {**claim["spec"], "volumeName": volume}}, **own, **{BIND_COMPLETED: "yes"})


def claim_status(claim: JSONObject, phase: str, volume: JSONObject | None) -> JSONObject | None:
    """The status of a claim with this phase and volume; None if it has that already."""
    status = claim.get("status") or {}
    gone = ("accessModes", "capacity", "currentVolumeAttributesClassName")
    changed = {name: value for name, value in status.items() if name not in gone} | {"phase": phase}
    if volume is not None:
        spec = volume["spec"]
        changed["accessModes"] = spec.get("accessModes") or []
        # The size of a claim that is bound already may have grown, which is others' to say.
        is_new = status.get("phase") != phase
        changed["capacity"] = spec.get("capacity") or {} if is_new else status.get("capacity") or {}
        attributes = spec.get("volumeAttributesClassName") if is_new else status.get("currentVolumeAttributesClassName")
        changed |= {"currentVolumeAttributesClassName": attributes} if attributes else {}
    return None if changed == status else changed


class Reclaim(NamedTuple):
    """What becomes of a released volume. action: Keep, Delete, Recycle or Fail; reason, message: of the Event of the last."""

    action: str
    reason: str = ""
    message: str = ""


def reclaim(volume: JSONObject) -> Reclaim:
    """What becomes of a released volume by its policy, where no node has its files."""
    spec, annotations = volume["spec"], annotations_of(volume)
    policy = spec.get("persistentVolumeReclaimPolicy")
    provisioner = annotations.get(_PROVISIONED_BY, "")
    if policy == "Recycle":
        if "nfs" in spec or "hostPath" in spec:
            return Reclaim("Recycle")
        return Reclaim("Fail", "VolumeFailedRecycle", "No recycler plugin found for the volume!")
    if policy != "Delete" or _MIGRATED_TO in annotations or "csi" in spec:
        return Reclaim("Keep")
    if provisioner and not provisioner.startswith("kubernetes.io/"):
        return Reclaim("Keep")  # its provisioner deletes it
    if "hostPath" in spec:
        path = spec["hostPath"].get("path") or ""
        if _DELETABLE_PATH.fullmatch(path):
            return Reclaim("Delete")
        message = f"host_path deleter only supports /tmp/.+ but received provided {path}"
        return Reclaim("Fail", "VolumeFailedDelete", message)
    name = volume["metadata"]["name"]
    message = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
    return Reclaim("Fail", "VolumeFailedDelete", message)
