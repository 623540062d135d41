"""What is done to a definition around its writes; what is wrong with it is test_validation.py's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from aggserver.apiextensions import conditions, manifest, validation
from aggserver.apiextensions.strategy import CLEANUP_FINALIZER, DefinitionStatusStrategy, DefinitionStrategy, set_defaults
from aggserver.authentication.user import UserInfo
from aggserver.meta.field import Path
from aggserver.registry.rest import Context
from aggserver.schema.rules import RuleOptions
from aggserver.scheme.decoding import decode_error
from tests.fakes.definitions import CRONTABS

NOW = "2026-01-02T03:04:05Z"

DEFAULTS: dict[str, tuple[Any, Any]] = {
    # name: (given, filled in)
    "no spec": ({}, {}),
    "no names": ({"spec": {}}, {"spec": {"conversion": {"strategy": "None"}}}),
    "singular and listKind": (
        {"spec": {"names": {"kind": "Foo"}}},
        {"spec": {"names": {"kind": "Foo", "singular": "foo", "listKind": "FooList"}, "conversion": {"strategy": "None"}}},
    ),
    "what is given": (
        {"spec": {"names": {"kind": "Foo", "singular": "f", "listKind": "Foos"}, "conversion": {"strategy": "Webhook"}}},
        {"spec": {"names": {"kind": "Foo", "singular": "f", "listKind": "Foos"}, "conversion": {"strategy": "Webhook"}}},
    ),
}

CONTEXT = Context(UserInfo("someone"))
NOW = "2026-01-02T03:04:05Z"


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name: str) -> None:
    given, wanted = copy.deepcopy(DEFAULTS[name])
    set_defaults(given)
    assert given == wanted


def stored() -> Any:
    crd = copy.deepcopy(CRONTABS)
    crd["metadata"]["generation"] = 4
    crd["status"] = {"conditions": [], "acceptedNames": crd["spec"]["names"], "storedVersions": ["v1"]}
    return crd


def test_create() -> None:
    crd = copy.deepcopy(CRONTABS)
    crd["status"] = {"storedVersions": ["mine"]}
    DefinitionStrategy().prepare_for_create(crd, CONTEXT, NOW)
    assert crd["metadata"]["generation"] == 1
    assert crd["status"]["storedVersions"] == ["v1"]
    assert DefinitionStrategy().validate(crd).errors == []


def test_options_of_rules() -> None:
    crd = stored()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [{"rule": "'a' in self.metadata.labels"}]
    for options, refused in ((RuleOptions(), 1), (RuleOptions(sees_labels=True), 0)):
        strategy = DefinitionStrategy(options)
        assert len(strategy.validate(crd).errors) == refused
        assert len(strategy.validate_update(crd, stored()).errors) == refused


def test_many_rules_are_not_for_the_event_loop() -> None:
    crd = stored()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [{"rule": "self.kind != 'this' || self.none"}] * 100
    strategy = DefinitionStrategy()
    for verdict in (strategy.validate(crd), strategy.validate_update(crd, stored())):
        assert verdict.errors == []
        assert verdict.later is not None
        assert len(verdict.later(lambda: False).errors) == 100


def test_a_large_definition_is_not_for_the_event_loop() -> None:
    crd = stored()
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert DefinitionStrategy().validate(crd).later is None
    spec["allOf"] = [{"allOf": [{"maxProperties": 9} for _ in range(100)]} for _ in range(100)]
    verdict = DefinitionStrategy().validate(crd)
    assert verdict.later is not None
    assert verdict.later(lambda: False).errors == []
    spec["allOf"][99]["allOf"][99]["type"] = "object"
    verdict = DefinitionStrategy().validate_update(crd, stored())
    assert verdict.later is not None
    paths = [problem.field for problem in verdict.later(lambda: False).errors]
    assert any(path.endswith("properties[spec].allOf[99].allOf[99].type") for path in paths)


# Passes over a schema of 90,000 nodes: for each of these it may look at a node, but make nothing.
PASSES: dict[str, Callable[[Any], Any]] = {
    "form": manifest.problems,
    "decoding": lambda crd: decode_error(crd, manifest.TYPE),
    "pruning": manifest.prune,
    "structure": conditions.non_structural,
    "rules": validation.validate,
}


@pytest.mark.parametrize("name", PASSES)
def test_plain_schemas_cost_no_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    crd = stored()
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["allOf"] = [{"allOf": [{"maxProperties": 9 + n} for n in range(100)]} for _ in range(100)]
    spec["properties"].update({f"field{n}": {"type": "string", "maxLength": 9} for n in range(10_000)})
    made = []
    real = Path.__init__

    def counted(self: Path, *arguments: Any) -> None:
        made.append(arguments)
        real(self, *arguments)

    monkeypatch.setattr(Path, "__init__", counted)
    assert not PASSES[name](crd)
    assert len(made) < 2000


def test_update_keeps_the_status() -> None:
    old, new = stored(), stored()
    new["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    DefinitionStrategy().prepare_for_update(new, old, NOW)
    assert new == old


def test_update_of_the_spec() -> None:
    old, new = stored(), stored()
    new["spec"]["versions"][0]["storage"], new["spec"]["versions"][1]["storage"] = False, True
    DefinitionStrategy().prepare_for_update(new, old, NOW)
    assert new["metadata"]["generation"] == 5
    assert new["status"]["storedVersions"] == ["v1", "v1beta1"]
    assert old == stored()


def test_update_of_the_status() -> None:
    old, new = stored(), stored()
    new["spec"]["scope"] = "Cluster"
    new["metadata"]["finalizers"] = []
    new["status"]["storedVersions"] = ["v1beta1"]
    DefinitionStatusStrategy().prepare_for_update(new, old, NOW)
    assert new["spec"] == old["spec"]
    assert new["metadata"]["finalizers"] == []
    assert new["status"]["storedVersions"] == ["v1beta1"]


@pytest.mark.parametrize("finalizers", [[], ["example.com/x"], [CLEANUP_FINALIZER]])
def test_delete(finalizers: list[str]) -> None:
    crd = stored()
    crd["metadata"]["finalizers"] = finalizers
    DefinitionStrategy().prepare_for_delete(crd, NOW)
    assert crd["metadata"]["finalizers"] == list(dict.fromkeys([*finalizers, CLEANUP_FINALIZER]))
    (condition,) = crd["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Terminating", "True", "InstanceDeletionPending")
    assert condition["lastTransitionTime"] == NOW


def test_delete_of_what_is_being_deleted() -> None:
    crd = stored()
    crd["metadata"]["deletionTimestamp"] = NOW
    before = copy.deepcopy(crd)
    DefinitionStrategy().prepare_for_delete(crd, NOW)
    assert crd == before
