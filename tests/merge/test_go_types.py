"""Kinds: what the Go types of the server's own kinds say of lists, and what Go writes of a new object."""

from __future__ import annotations

from aggserver.merge import go_types
from aggserver.merge.typed import field_set

DEFINITION, NAMESPACE, SCALE = "apiextensions/v1.CustomResourceDefinition", "core/v1.Namespace", "autoscaling/v1.Scale"


def test_items_of_lists_are_told_apart_by_their_keys() -> None:
    conditions = {"status": {"conditions": [{"type": "A", "status": "True"}, {"status": "False"}]}}
    for kind in (DEFINITION, NAMESPACE):
        assert field_set(conditions, go_types.of_type(kind)) == {
            "f:status": {
                "f:conditions": {
                    'k:{"type":"A"}': {".": {}, "f:type": {}, "f:status": {}},
                    'k:{"type":""}': {".": {}, "f:status": {}},  # Go has no text that is missing
                }
            }
        }


def test_all_other_lists_are_atomic() -> None:
    versions = {"spec": {"versions": [{"name": "v1"}], "names": {"shortNames": ["a"]}}}
    assert field_set(versions, go_types.of_type(DEFINITION)) == {"f:spec": {"f:versions": {}, "f:names": {"f:shortNames": {}}}}
    assert field_set({"spec": {"finalizers": ["a"]}}, go_types.of_type(NAMESPACE)) == {"f:spec": {"f:finalizers": {}}}


def test_types_are_made_once() -> None:
    assert go_types.of_type(SCALE) is go_types.of_type(SCALE)


def test_what_go_writes_of_a_new_object() -> None:
    assert go_types.zero(NAMESPACE) == {"spec": {}, "status": {}}
    assert go_types.zero(SCALE) == {"spec": {}, "status": {"replicas": 0}}
    names = {"plural": "", "kind": ""}
    assert go_types.zero(DEFINITION) == {
        "spec": {"group": "", "names": names, "scope": "", "versions": None},
        "status": {"conditions": None, "acceptedNames": names, "storedVersions": None},
    }


def test_a_key_that_is_missing_has_its_default() -> None:
    ports = {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}}
    assert field_set(ports, go_types.of_type("core/v1.Pod"))["f:spec"]["f:containers"]['k:{"name":"a"}']["f:ports"] == {
        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}
    }


def test_a_member_says_whether_its_type_is_atomic_there() -> None:
    reference = {"name": "a", "namespace": "b"}
    volume = {"spec": {"claimRef": reference, "nodeAffinity": {"required": {"nodeSelectorTerms": [{}]}}}}
    assert field_set(volume, go_types.of_type("core/v1.PersistentVolume"))["f:spec"] == {
        "f:claimRef": {"f:name": {}, "f:namespace": {}},
        "f:nodeAffinity": {"f:required": {}},
    }
    event = {"involvedObject": reference}
    assert field_set(event, go_types.of_type("core/v1.Event")) == {"f:involvedObject": {}}


def test_values_without_a_type() -> None:
    revision = {"data": {"a": {"b": 1}}, "revision": 1}
    assert field_set(revision, go_types.of_type("apps/v1.ControllerRevision")) == {"f:data": {}, "f:revision": {}}
    rolling = {"spec": {"strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}}}
    assert field_set(rolling, go_types.of_type("apps/v1.Deployment"))["f:spec"]["f:strategy"]["f:rollingUpdate"] == {
        "f:maxSurge": {},
        "f:maxUnavailable": {},
    }
