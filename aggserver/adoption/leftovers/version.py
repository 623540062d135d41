"""Leftovers: the version of a definition by which kube-apiserver itself serves what a move left in its etcd. Pure.

All versions that an adopted definition serves lead to this server. So during a cleanup the definition serves one more version,
for which kube-apiserver makes a local APIService, since nobody has made one. The version's name is below all others in the order
of versions, so that no client prefers it. It has no schema, so that objects are neither pruned nor refused. A definition with a
conversion webhook can't have it: the webhook would be asked for a version that it does not know.

A removal through the API passes admission: webhooks of the cluster are asked about the deletion of objects that live on here.
A webhook that declares side effects would act on that, so nothing is removed if there is one.
Source: k8s.io/apimachinery pkg/version/helpers.go (CompareKubeAwareVersionStrings), k8s.io/kubernetes
pkg/controlplane/controller/crdregistration (which versions get an APIService), k8s.io/apiserver
pkg/admission/plugin/webhook/predicates/rules/rules.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aggserver.admission.matching import ANY, RuleWithOperations
from aggserver.adoption.records.record import Copied
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = [
    "LEFTOVER",
    "MANAGER",
    "VERSION",
    "Leftover",
    "acting_webhooks",
    "addition",
    "fault",
    "is_open",
    "leftover",
    "obstacle",
    "removal",
    "restored_managers",
]

# Sorts last: Kubernetes puts versions of the form v1, v1beta1, ... first, and the others by their letters.
VERSION = "zz-aggserver-leftovers"

# The field manager of the changes made here. Its entry in managedFields is removed again.
MANAGER = "aggserver-leftovers"

# On a leftover whose finalizers were removed: its revision before that. By this an interrupted removal knows its own writes.
LEFTOVER = "aggserver.io/leftover"

_DELETE, _UPDATE = "DELETE", "UPDATE"


class Leftover(NamedTuple):
    """One object of the host. key: in either store. revision: its resourceVersion in the host. is_marked: has LEFTOVER."""

    key: str
    namespace: str
    name: str
    uid: str
    revision: int
    finalizers: tuple[str, ...]
    is_marked: bool


# --- the version ---


def is_open(crd: JSONMapping) -> bool:
    """Whether the definition has the version."""
    return any(version["name"] == VERSION for version in crd["spec"]["versions"])


def obstacle(crd: JSONMapping) -> str:
    """Why the definition can't have the version; '' if it can."""
    if (crd["spec"].get("conversion") or {}).get("strategy") == "Webhook":
        return "its conversion webhook does not know the version by which kube-apiserver would show what is left"
    return ""


def addition(crd: JSONMapping) -> list[JSONObject]:
    """The JSON Patch that adds the version. It fails if somebody has changed the definition since it was read."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": VERSION, "served": True, "storage": False, "schema": schema}
    return [*_tests(crd), {"op": "add", "path": "/spec/versions/-", "value": version}]


def removal(crd: JSONMapping) -> list[JSONObject]:
    """The JSON Patch that removes the version. It fails as `addition` does."""
    names = [version["name"] for version in crd["spec"]["versions"]]
    return [*_tests(crd), {"op": "remove", "path": f"/spec/versions/{names.index(VERSION)}"}]


def restored_managers(crd: JSONMapping, before: JSONMapping) -> list[JSONObject] | None:
    """The JSON Patch that restores managedFields as before a change of the versions; None if they are the same.

    crd: after the change. before: as it was. Without this, the next server-side apply by the definition's author would conflict.
    """
    managers = [each for each in before["metadata"].get("managedFields") or () if each.get("manager") != MANAGER]
    if not managers or managers == (crd["metadata"].get("managedFields") or []):
        return None
    return [*_tests(crd), {"op": "add", "path": "/metadata/managedFields", "value": managers}]


def _tests(crd: JSONMapping) -> list[JSONObject]:
    metadata = crd["metadata"]
    return [{"op": "test", "path": f"/metadata/{name}", "value": metadata[name]} for name in ("uid", "resourceVersion")]


# --- the objects ---


def leftover(prefix: str, metadata: Mapping[str, Any]) -> Leftover:
    """The Leftover with this metadata. prefix: of the definition's keys."""
    namespace, name = metadata.get("namespace") or "", metadata["name"]
    return Leftover(
        key=f"{prefix}{namespace}/{name}" if namespace else f"{prefix}{name}",
        namespace=namespace,
        name=name,
        uid=metadata["uid"],
        revision=int(metadata["resourceVersion"]),
        finalizers=tuple(metadata.get("finalizers") or ()),
        is_marked=LEFTOVER in (metadata.get("annotations") or {}),
    )


def fault(found: Leftover, copied: Copied) -> str:
    """Why this object must not be removed; '' if nobody but an interrupted removal has written it since the move."""
    if found.revision <= copied.host_revision or found.is_marked:
        return ""
    return f"was written by kube-apiserver at revision {found.revision}, after the move"


# --- admission webhooks ---


def acting_webhooks(configurations: Iterable[JSONMapping], crd: JSONMapping, *, updates: bool) -> list[str]:
    """The names of the admission webhooks with side effects that a removal would call. updates: it updates objects, too."""
    spec = crd["spec"]
    served = {version["name"] for version in spec["versions"] if version["served"]} | {VERSION}
    operations = {ANY, _DELETE, _UPDATE} if updates else {ANY, _DELETE}
    found = set()
    for webhook in (each for configuration in configurations for each in configuration.get("webhooks") or ()):
        versions = {VERSION} if webhook.get("matchPolicy") == "Exact" else served
        rules: Sequence[RuleWithOperations] = [RuleWithOperations.parse(rule) for rule in webhook.get("rules") or ()]
        asked = any(_concerns(rule, spec["group"], spec["names"]["plural"], versions, operations) for rule in rules)
        if asked and webhook.get("sideEffects") != "None":
            found.add(str(webhook["name"]))
    return sorted(found)


def _concerns(rule: RuleWithOperations, group: str, plural: str, versions: Collection[str], operations: Collection[str]) -> bool:
    objects = any(name in (ANY, plural) and subresource in (ANY, "") for name, subresource in rule.resources)
    versions = {ANY, *versions}
    return (
        objects
        and not rule.groups.isdisjoint({ANY, group})
        and not rule.versions.isdisjoint(versions)
        and not rule.operations.isdisjoint(operations)
    )
