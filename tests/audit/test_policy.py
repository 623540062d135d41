"""The audit policy: what a file means, what is wrong with it, and which rule a request meets."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from aggserver.audit.policy import LEVELS, AuditPolicy, AuditPolicyError
from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes

BOB = UserInfo("bob", groups=("builders", "system:authenticated"))
HEAD = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
POD = Attributes(BOB, "get", "", "v1", "pods", "", "default", "p", "/api/v1/namespaces/default/pods/p")
POD_LOG = POD._replace(subresource="log")
SCALE = Attributes(BOB, "update", "apps", "v1", "deployments", "scale", "default", "d")
NODES = Attributes(BOB, "list", "", "v1", "nodes")
VERSION = Attributes(BOB, "get", path="/version")
METRICS = Attributes(BOB, "get", path="/metrics/slis")
NOBODY = POD._replace(user=UserInfo(""))


def policy(*rules: dict[str, Any], **more: Any) -> AuditPolicy:
    document = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "rules": [{"level": "Metadata", **rule} for rule in rules],
        **more,
    }
    return AuditPolicy.read(yaml.safe_dump(document).encode())


# name: (the rule, the requests that it matches)
EVERY = {"pod": POD, "log": POD_LOG, "scale": SCALE, "nodes": NODES, "version": VERSION, "metrics": METRICS, "nobody": NOBODY}
MATCHES: dict[str, tuple[dict[str, Any], str]] = {
    "everything": ({}, "pod log scale nodes version metrics nobody"),
    "users": ({"users": ["alice", "bob"]}, "pod log scale nodes version metrics"),
    "no such user": ({"users": ["alice"]}, ""),
    "groups": ({"userGroups": ["builders"]}, "pod log scale nodes version metrics"),
    "no such group": ({"userGroups": ["bob"]}, ""),
    "verbs": ({"verbs": ["list", "update"]}, "scale nodes"),
    "namespaces": ({"namespaces": ["default"]}, "pod log scale nobody"),
    "no namespace": ({"namespaces": [""]}, "nodes"),
    "a group": ({"resources": [{"group": "apps"}]}, "scale"),
    "the core group": ({"resources": [{"group": ""}]}, "pod log nodes nobody"),
    "any group": ({"resources": [{"group": "*"}]}, "pod log scale nodes nobody"),
    "a resource": ({"resources": [{"resources": ["pods"]}]}, "pod nobody"),
    "a subresource": ({"resources": [{"resources": ["pods/log"]}]}, "log"),
    "all subresources, and itself": ({"resources": [{"resources": ["pods/*"]}]}, "pod log nobody"),
    "a subresource of all": ({"resources": [{"group": "*", "resources": ["*/scale"]}]}, "scale"),
    "all resources": ({"resources": [{"group": "apps", "resources": ["*"]}]}, "scale"),
    "names": ({"resources": [{"resources": ["pods", "nodes"], "resourceNames": ["p"]}]}, "pod nobody"),
    "other names": ({"resources": [{"resources": ["*"], "resourceNames": ["q"]}]}, ""),
    "several entries": ({"resources": [{"group": "apps"}, {"resources": ["nodes"]}]}, "scale nodes"),
    "a path": ({"nonResourceURLs": ["/version"]}, "version"),
    "paths below": ({"nonResourceURLs": ["/metrics*"]}, "metrics"),
    "all paths": ({"nonResourceURLs": ["*"]}, "version metrics"),
    "everything at once": (
        {"users": ["bob"], "verbs": ["get"], "namespaces": ["default"], "resources": [{"group": ""}]},
        "pod log",
    ),
}


@pytest.mark.parametrize("case", MATCHES)
def test_a_rule_matches(case: str) -> None:
    rule, matched = MATCHES[case]
    read = policy(rule)
    assert " ".join(name for name, asked in EVERY.items() if read.of(asked).level) == matched


def test_the_first_rule_counts() -> None:
    read = policy({"level": "None", "verbs": ["get"]}, {"level": "Request"}, {"level": "RequestResponse"})
    assert [LEVELS[read.of(asked).level] for asked in (POD, NODES)] == ["None", "Request"]


def test_stages_of_the_policy_and_of_the_rule_are_omitted() -> None:
    read = policy({"omitStages": ["Panic"], "verbs": ["get"]}, {}, omitStages=["RequestReceived"])
    assert read.of(POD).omitted == {"RequestReceived", "Panic"}
    assert read.of(NODES).omitted == {"RequestReceived"}


@pytest.mark.parametrize(("everywhere", "own", "found"), [(True, None, True), (True, False, False), (False, True, True)])
def test_managed_fields(everywhere: bool, own: bool | None, found: bool) -> None:
    read = policy({} if own is None else {"omitManagedFields": own}, omitManagedFields=everywhere)
    assert read.of(POD).without_managed_fields is found


# name: (the file, the error)
WRONG = {
    "empty": ("", "failed decoding: couldn't get version/kind; json parse error: json: cannot unmarshal null"),
    "no YAML": ("{", "failed decoding: couldn't get version/kind; json parse error: "),
    "no kind": ("apiVersion: audit.k8s.io/v1\n", "failed decoding: Object 'Kind' is missing in 'apiVersion: audit.k8s.io/v1\n'"),
    "an old version": (
        "apiVersion: audit.k8s.io/v1beta1\nkind: Policy\n",
        'no kind "Policy" is registered for version "audit.k8s.io/v1beta1"',
    ),
    "another kind": ("apiVersion: audit.k8s.io/v1\nkind: Event\n", 'no kind "Event" is registered for version "audit.k8s.io/v1"'),
    "no rules": (f"{HEAD}rules: []\n", "loaded illegal policy with 0 rules"),
    "no level": (f"{HEAD}rules: [{{}}]\n", "rules[0].level: Required value"),
    "a wrong level": (
        f"{HEAD}rules: [{{level: Metadata}}, {{level: All}}]\n",
        'rules[1].level: Unsupported value: "All": supported values: "None", "Metadata", "Request", "RequestResponse"',
    ),
    "a wrong stage": (
        f"{HEAD}omitStages: [Panic, Later]\nrules: [{{level: None}}]\n",
        'omitStages[1]: Invalid value: "Later": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic',
    ),
    "a path without a slash": (
        f"{HEAD}rules: [{{level: None, nonResourceURLs: ['*', metrics]}}]\n",
        "rules[0].nonResourceURLs[1]: Invalid value: \"metrics\": non-resource URL rules must begin with a '/' character",
    ),
    "a path with a wildcard": (
        f"{HEAD}rules: [{{level: None, nonResourceURLs: [/a*/b]}}]\n",
        "rules[0].nonResourceURLs[0]: Invalid value: \"/a*/b\": non-resource URL wildcards '*' must be the final",
    ),
    "paths and resources": (
        f"{HEAD}rules: [{{level: None, nonResourceURLs: [/a], namespaces: [b]}}]\n",
        'rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and non-resource URLs',
    ),
    "a group with a version": (
        f"{HEAD}rules: [{{level: None, resources: [{{group: apps/v1}}]}}]\n",
        'rules[0].resources.group: Invalid value: "apps/v1": a lowercase RFC 1123 subdomain must consist of',
    ),
    "names without resources": (
        f"{HEAD}rules: [{{level: None, resources: [{{resourceNames: [a]}}]}}]\n",
        'rules[0].resources.resourceNames: Invalid value: ["a"]: using resourceNames requires at least one resource',
    ),
    "a text for a list": (
        f"{HEAD}rules: [{{level: None, verbs: get}}]\n",
        "failed decoding: json: cannot unmarshal string into Go struct field PolicyRule.rules.verbs of type []string",
    ),
    "a number for a text": (
        f"{HEAD}rules: [{{level: None, resources: [{{resources: [1]}}]}}]\n",
        "json: cannot unmarshal number into Go struct field GroupResources.rules.resources.resources of type string",
    ),
    "two things": (f"{HEAD}rules: [{{}}, {{level: x}}]\n", "[rules[0].level: Required value, rules[1].level: Unsupported value"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file(case: str) -> None:
    content, text = WRONG[case]
    with pytest.raises(AuditPolicyError, match=re.escape(text)):
        AuditPolicy.read(content.encode())


def test_what_the_kind_does_not_have_is_warned_of() -> None:
    read = AuditPolicy.read(f"{HEAD}rule: 1\nrules: [{{level: None, user: [a]}}]\nomitStages: [Panic]\nomitStages: []\n".encode())
    assert sorted(read.warnings) == ['unknown field "rule"', 'unknown field "rules[0].user"', *read.warnings[:1]]
    assert "omitStages" in read.warnings[0]
