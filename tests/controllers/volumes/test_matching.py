"""Which volume a claim gets, what both say when they are bound, and what becomes of a released one."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.controllers.volumes.matching import (
    AvailableVolumes,
    Reclaim,
    bound_claim,
    bound_volume,
    claim_status,
    fits_reserved,
    is_bound_to,
    mismatch,
    reclaim,
    selector_of,
    unbound_volume,
)
from tests.fakes.work import instructions

CLASS = "volume.beta.kubernetes.io/storage-class"
BY_CONTROLLER, COMPLETED = "pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/bind-completed"


def volume(
    name: str = "v", size: str = "1Gi", modes: Any = ("ReadWriteOnce",), status: Any = None, **more: Any
) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    spec = {"capacity": {"storage": size}, "accessModes": list(modes), **more}
    return {"metadata": metadata, "spec": spec, "status": status or {"phase": "Available"}}


def claim(size: str = "1Gi", modes: Any = ("ReadWriteOnce",), **more: Any) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": "c", "uid": "u", "resourceVersion": "7", **more.pop("metadata", {})}
    spec = {"resources": {"requests": {"storage": size}}, "accessModes": list(modes), **more}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


REF = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "ns", "name": "c"}
BOTH = ("ReadWriteOnce", "ReadWriteMany")
CASES: dict[str, tuple[list[Any], Any, list[str]]] = {
    # name: (volumes, claim, the candidates, the best first)
    "the smallest": ([volume("a", "5Gi"), volume("b", "2Gi"), volume("c", "1Gi")], claim("1500Mi"), ["b", "a"]),
    "few modes first": ([volume("a", "1Gi", BOTH), volume("b", "2Gi")], claim(), ["b", "a"]),
    "all modes": ([volume("a"), volume("b", modes=BOTH)], claim(modes=BOTH), ["b"]),
    "the same class": ([volume("a", storageClassName="x"), volume("b")], claim(storageClassName="x"), ["a"]),
    "a class by annotation": ([volume("a", metadata={"annotations": {CLASS: "x"}})], claim(storageClassName="x"), ["a"]),
    "no class": ([volume("a", storageClassName="x")], claim(), []),
    "the same mode": ([volume("a", volumeMode="Block"), volume("b", volumeMode="Filesystem")], claim(), ["b"]),
    "the same attributes": ([volume("a", volumeAttributesClassName="x")], claim(), []),
    "none that is too small": ([volume("a", "999Mi")], claim(), []),
    "none that is taken": ([volume("a", claimRef=REF)], claim(), []),
    "none of another phase": ([volume("a", status={"phase": "Released"})], claim(), []),
    "none that is being deleted": ([volume("a", metadata={"deletionTimestamp": "x"})], claim(), []),
    "fractions": ([volume("a", "1500m"), volume("b", "1")], claim("1400m"), ["a"]),
}


@pytest.mark.parametrize("name", CASES)
def test_candidates(name: str) -> None:
    volumes, wanting, wanted = CASES[name]
    index = AvailableVolumes()
    for each in volumes:
        index.put(each["metadata"]["name"], each)
    assert list(index.candidates(wanting)) == wanted


def test_volumes_that_change() -> None:
    index = AvailableVolumes()
    assert index.put("v", volume())
    assert not index.put("v", volume())
    assert index.count("") == 1
    assert index.put("v", volume(size="2Gi", storageClassName="x"))
    assert (index.count(""), index.count("x")) == (0, 1)
    assert not index.put("v", volume(claimRef=REF))
    assert not index.put("v", None)
    assert (index.count("x"), list(index.candidates(claim()))) == (0, [])


def test_the_best_of_many_takes_no_longer() -> None:
    def work(count: int) -> int:
        index = AvailableVolumes()
        for number in range(count):
            index.put(f"v{number}", volume(f"v{number}", f"{number + 1}Gi"))
        return instructions(lambda: next(index.candidates(claim(f"{count}Gi"))))

    assert work(2000) < 2 * work(20)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [(None, True), ({}, True), ({"matchLabels": {"a": "b"}}, True), ({"matchLabels": {"a": "c"}}, False)],
)
def test_selectors(selector: Any, matches: bool) -> None:
    given = claim() if selector is None else claim(selector=selector)
    selector = selector_of(given)
    assert selector is not None
    assert selector.matches(volume(metadata={"labels": {"a": "b"}})["metadata"]["labels"]) is matches


MISMATCHES = {
    "": volume(),
    "requested PV is too small": volume(size="1Mi"),
    "storageClassName does not match": volume(storageClassName="x"),
    "volumeAttributesClassName does not match": volume(volumeAttributesClassName="x"),
    "incompatible volumeMode": volume(volumeMode="Block"),
    "incompatible accessMode": volume(modes=("ReadOnlyMany",)),
    'the volume is marked for deletion "v"': volume(metadata={"deletionTimestamp": "x"}),
}


@pytest.mark.parametrize("why", MISMATCHES)
def test_why_a_claim_cannot_have_the_volume_it_names(why: str) -> None:
    assert mismatch(MISMATCHES[why], claim()) == why


@pytest.mark.parametrize(
    ("reference", "is_bound"),
    [({}, True), ({"uid": "u"}, True), ({"uid": "x"}, False), ({"name": "x"}, False), ({"namespace": "x"}, False)],
)
def test_volumes_that_name_a_claim(reference: Any, is_bound: bool) -> None:
    assert is_bound_to(volume(claimRef={**REF, **reference}), claim()) is is_bound


def test_reserved_volumes_of_any_class() -> None:
    assert fits_reserved(volume(storageClassName="x"), claim())
    assert not fits_reserved(volume(size="1Mi"), claim())
    assert not fits_reserved(volume(volumeMode="Block"), claim())


def test_binding() -> None:
    bound = bound_volume(volume(), claim())
    assert bound is not None
    assert bound["spec"]["claimRef"] == {**REF, "uid": "u", "resourceVersion": "7"}
    assert bound["metadata"]["annotations"] == {BY_CONTROLLER: "yes"}
    assert bound_volume(bound, claim()) is None
    reserved = bound_volume(volume(claimRef=REF), claim())
    assert reserved is not None
    assert "annotations" not in reserved["metadata"]
    of_claim = bound_claim(claim(), "v")
    assert of_claim is not None
    assert (of_claim["spec"]["volumeName"], of_claim["metadata"]["annotations"]) == (
        "v",
        {BY_CONTROLLER: "yes", COMPLETED: "yes"},
    )
    assert bound_claim(of_claim, "v") is None
    named = bound_claim(claim(volumeName="v"), "v")
    assert named is not None
    assert named["metadata"]["annotations"] == {COMPLETED: "yes"}


def test_unbinding() -> None:
    bound = bound_volume(volume(), claim())
    assert bound is not None
    free = unbound_volume(bound)
    assert "claimRef" not in free["spec"]
    assert "annotations" not in free["metadata"]
    assert unbound_volume(volume(claimRef={**REF, "uid": "u"}))["spec"]["claimRef"] == REF


def test_the_status_of_a_claim() -> None:
    bound = claim_status(claim(), "Bound", volume(size="3Gi", modes=BOTH, volumeAttributesClassName="x"))
    more = {"capacity": {"storage": "3Gi"}, "accessModes": [*BOTH], "currentVolumeAttributesClassName": "x"}
    assert bound == {"phase": "Bound", **more}
    assert claim_status(claim(), "Pending", None) is None
    # A bound claim keeps its size, which a resizer sets.
    assert claim_status({**claim(), "status": bound}, "Bound", volume(size="9Gi", modes=BOTH)) is None
    assert claim_status({**claim(), "status": bound}, "Lost", None) == {"phase": "Lost"}


TMP, ELSEWHERE = {"path": "/tmp/x"}, {"path": "/data"}
FAILED = 'error getting deleter volume plugin for volume "v": no deletable volume plugin matched'
RECLAIMED: dict[str, tuple[dict[str, Any], Reclaim]] = {
    "retain": ({"persistentVolumeReclaimPolicy": "Retain"}, Reclaim("Keep")),
    "delete": ({"persistentVolumeReclaimPolicy": "Delete", "hostPath": TMP}, Reclaim("Delete")),
    "elsewhere": (
        {"persistentVolumeReclaimPolicy": "Delete", "hostPath": ELSEWHERE},
        Reclaim("Fail", "VolumeFailedDelete", "host_path deleter only supports /tmp/.+ but received provided /data"),
    ),
    "no deleter": ({"persistentVolumeReclaimPolicy": "Delete", "nfs": {}}, Reclaim("Fail", "VolumeFailedDelete", FAILED)),
    "csi": ({"persistentVolumeReclaimPolicy": "Delete", "csi": {}}, Reclaim("Keep")),
    "provisioned": (
        {"persistentVolumeReclaimPolicy": "Delete", "metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "x.io/y"}}},
        Reclaim("Keep"),
    ),
    "recycle": ({"persistentVolumeReclaimPolicy": "Recycle", "nfs": {}}, Reclaim("Recycle")),
    "no recycler": (
        {"persistentVolumeReclaimPolicy": "Recycle", "local": {}},
        Reclaim("Fail", "VolumeFailedRecycle", "No recycler plugin found for the volume!"),
    ),
}


@pytest.mark.parametrize("name", RECLAIMED)
def test_released_volumes(name: str) -> None:
    given, wanted = RECLAIMED[name]
    assert reclaim(volume(**given)) == wanted
