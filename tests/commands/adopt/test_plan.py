"""Plan: what is said of families, from what was read of the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aggserver.apiextensions.api_service import Service
from aggserver.commands.adopt.plan import Facts, HostAccess, Sample, access_of, chosen, plan
from aggserver.commands.adopt.report import plan_text
from aggserver.meta.selectors import LabelSelector

OURS = Service("ns", "aggserver", 443)
NAME = "crontabs.stable.example.com"
MIB = 1024 * 1024


def crd(plural: str = "crontabs", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    name = f"{plural}.stable.example.com"
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "uid": f"uid-{plural}", "labels": labels or {}},
        "spec": {
            "group": "stable.example.com",
            "scope": "Namespaced",
            "names": {
                "plural": plural,
                "singular": plural[:-1],
                "kind": plural[:-1].title(),
                "listKind": f"{plural.title()}List",
            },
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            **spec,
        },
        "status": {"conditions": [{"type": kind, "status": "True"} for kind in ("Established", "NamesAccepted")]},
    }


def api_service(**service: Any) -> dict[str, Any]:
    metadata = {"name": "v1.stable.example.com"}
    return {"metadata": metadata, "spec": {"group": "stable.example.com", "version": "v1", **service}}


def planned(facts: Facts, selector: str = "") -> dict[str, Any]:
    return plan(facts, chosen(facts, LabelSelector.parse(selector), OURS), MIB)


BARE = Facts([crd()], [])
WEBHOOK = {"name": "check.example.com", "clientConfig": {"service": {"namespace": "a", "name": "b"}}}
RULE = {"apiGroups": ["*"], "resources": ["crontabs/*"]}
CONVERSION = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://example.com/convert"}}}


def test_nothing_in_the_way() -> None:
    found = planned(replace(BARE, samples={NAME: Sample(1000, 100, 20_000, 300, 0.05)}))
    assert found["ok"]
    definition = found["families"][0]["definitions"][0]
    assert definition == {
        "name": NAME, "objects": 1000, "bytes": 200_000, "largest": 300, "sampled": 100, "secondsToRead": 0.5,
    }  # fmt: skip
    assert f"{NAME}: 1000 objects, some 195 KiB, read in some 0.5 s" in plan_text(found)


OBSTACLES = {
    # facts, selector, what is said
    "shared group-version": (Facts([crd(labels={"a": "b"}), crd("others")], []), "a=b", "together or not at all"),
    "somebody else's": (
        replace(BARE, api_services=[api_service(service={"namespace": "x", "name": "y"})]),
        "",
        "it is served by the Service x/y",
    ),
    "large": (replace(BARE, samples={NAME: Sample(1, 1, 2 * MIB, 2 * MIB, 0.1)}), "", "--max-object-bytes is 1048576"),
    "unreadable": (replace(BARE, samples={NAME: Sample(0, 0, 0, 0, 0.0, "403")}), "", "can't be read: 403"),
    "no permission": (
        replace(BARE, denied=[HostAccess("list", "stable.example.com", "crontabs")]),
        "",
        "to list crontabs.stable",
    ),
    "no general permission": (
        replace(BARE, denied=[HostAccess("get", "", "configmaps", "", "ns")]),
        "",
        "configmaps in namespace ns",
    ),
    "the installation": (replace(BARE, obstacles=["no Service"]), "", "no Service"),
    "not established": (Facts([{**crd(), "status": {}}], []), "", "is not established"),
}


@pytest.mark.parametrize(("facts", "selector", "text"), OBSTACLES.values(), ids=OBSTACLES)
def test_obstacles(facts: Facts, selector: str, text: str) -> None:
    found = planned(facts, selector)
    assert not found["ok"]
    assert text in " ".join([*found["obstacles"], *found["families"][0]["obstacles"]])
    assert "in the way: " in plan_text(found)


NOTES = {
    "webhook": (replace(BARE, webhooks=[{"webhooks": [{**WEBHOOK, "rules": [RULE]}]}]), "check.example.com at Service a/b:443"),
    "policy": (
        replace(BARE, policies=[{"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [RULE]}}}]),
        "admission policy p",
    ),
    "conversion": (Facts([crd(conversion=CONVERSION)], []), "conversion webhook https://example.com/convert"),
}


@pytest.mark.parametrize(("facts", "text"), NOTES.values(), ids=NOTES)
def test_notes(facts: Facts, text: str) -> None:
    found = planned(facts)
    assert text in " ".join(found["families"][0]["notes"])


ACCESS = {
    "through the API": (crd(), False, {"get", "list", "watch", "create", "update", "patch", "delete"}),
    "with a status": (
        crd(versions=[{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}]),
        False,
        {"get", "list", "watch", "create", "update", "patch", "delete", "update crontabs/status"},
    ),
    "with a status that is not served": (
        crd(versions=[{"name": "v1", "served": False, "storage": True, "subresources": {"status": {}}}]),
        False,
        {"get", "list", "watch", "create", "update", "patch", "delete"},
    ),
    "in etcd itself": (crd(), True, set()),
}


@pytest.mark.parametrize(("definition", "has_host_etcd", "verbs"), ACCESS.values(), ids=ACCESS)
def test_what_is_needed_of_the_objects(definition: dict[str, Any], has_host_etcd: bool, verbs: set[str]) -> None:
    needed = access_of(definition, has_host_etcd=has_host_etcd)
    shown = {str(each).removesuffix(".stable.example.com").removesuffix(" crontabs") for each in needed}
    assert shown == verbs
    facts = Facts([{**definition, "status": crd()["status"]}], [], denied=needed, has_host_etcd=has_host_etcd)
    said = [each for family in planned(facts)["families"] for each in family["obstacles"]]
    assert [each for each in said if "permission" in each] == [
        f"the service account lacks the permission to {each}" for each in needed
    ]


def test_webhooks_of_others_are_not_named() -> None:
    other = {"apiGroups": ["apps"], "resources": ["*"]}
    found = planned(replace(BARE, webhooks=[{"webhooks": [{**WEBHOOK, "rules": [other]}]}]))
    assert found["families"][0]["notes"] == []


def test_unselected_definitions_are_not_planned() -> None:
    found = planned(BARE, "adopt=yes")
    assert (found["ok"], found["families"]) == (True, [])
    assert "no definition matches" in plan_text(found)
