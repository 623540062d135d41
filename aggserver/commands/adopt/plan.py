"""Plan: what the adoption of the host's definitions would do, and what stands in its way, from what was read of the host. Pure.

Source: none; no other server does this. How rules match resources is upstream's: k8s.io/apiserver
pkg/admission/plugin/webhook/predicates/rules/rules.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aggserver.adoption.families import Family, families
from aggserver.adoption.switch.api_services import INSTALLATION, OurService, Owner, owner
from aggserver.apiextensions.api_service import Service
from aggserver.apiextensions.definition import DefinitionError, parse
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.selectors import LabelSelector

__all__ = ["Facts", "HostAccess", "Sample", "access_of", "access_of_server", "chosen", "elsewhere", "plan"]

NOTES = [
    "clients must not compare resourceVersions from before the move with those from after it: all watches end once with 410 "
    "Expired, and clients list anew",
    "while no aggserver answers, kube-apiserver answers requests for adopted objects with 503, and no namespace can be deleted",
]


class HostAccess(NamedTuple):
    """Access to the host that a service account needs. name: '' for any."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{f'.{self.group}' if self.group else ''}{f' {self.name}' if self.name else ''}{where}"


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures from the first objects of a definition.

    count: how many objects the definition has. read: how many were read. size, largest: of these, in bytes of JSON.
    read_seconds: how long that took. problem: why they can't be read.
    """

    count: int
    read: int
    size: int
    largest: int
    read_seconds: float
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read of the host. webhooks: configurations of both kinds, without the guard. policies: of both kinds.

    samples: by definition. denied: access that the service account lacks. obstacles: those of the installation, which concern
    every family. has_host_etcd: whether the server will have access to the cluster's etcd.
    """

    crds: Sequence[JSONMapping]
    api_services: Sequence[JSONMapping]
    webhooks: Sequence[JSONMapping] = ()
    policies: Sequence[JSONMapping] = ()
    samples: Mapping[str, Sample] = field(default_factory=dict)
    denied: Sequence[HostAccess] = ()
    obstacles: Sequence[str] = ()
    notes: Sequence[str] = ()
    has_host_etcd: bool = False


def access_of_server(namespace: str, guard_name: str) -> list[HostAccess]:
    """The access that adoption needs beside that to adopted resources. namespace: the service's. guard_name: the guard's."""
    crds, services = ("apiextensions.k8s.io", "customresourcedefinitions"), ("apiregistration.k8s.io", "apiservices")
    guard = ("admissionregistration.k8s.io", "validatingwebhookconfigurations")
    needed = [HostAccess(verb, *crds) for verb in ("get", "list", "watch", "patch")]
    needed += [HostAccess(verb, *crds, "status") for verb in ("get", "update")]
    needed += [HostAccess(verb, *services) for verb in ("get", "list", "watch", "create", "update", "delete")]
    needed.append(HostAccess("create", *guard))
    needed += [HostAccess(verb, *guard, name=guard_name) for verb in ("get", "update", "delete")]
    needed += [HostAccess(verb, "", "configmaps", "", namespace) for verb in ("get", "create", "update")]
    needed += [HostAccess(verb, "coordination.k8s.io", "leases", "", namespace) for verb in ("get", "create", "update")]
    needed += [HostAccess(verb, "", "events", "", "default") for verb in ("get", "create", "patch")]
    return [*needed, HostAccess("list", "discovery.k8s.io", "endpointslices", "", "default")]


def access_of(crd: JSONMapping, *, has_host_etcd: bool) -> list[HostAccess]:
    """The access to the objects of a definition that adoption and release need.

    has_host_etcd: whether objects are read and written in etcd itself; if not, through the API.
    """
    if has_host_etcd:
        return []
    spec = crd["spec"]
    group, plural = str(spec["group"]), str(spec["names"]["plural"])
    needed = [HostAccess(verb, group, plural) for verb in ("get", "list", "watch", "create", "update", "patch", "delete")]
    if any("status" in (each.get("subresources") or {}) for each in spec["versions"] if each["served"]):
        needed.append(HostAccess("update", group, plural, "status"))
    return needed


def elsewhere(api_services: Iterable[JSONMapping], service: Service) -> tuple[dict[tuple[str, str], str], set[tuple[str, str]]]:
    """The group-versions that can't be taken, with words that complete "it is ...", and those that the service has adopted."""
    others, ours = {}, set()
    for each in api_services:
        # Any installation counts as ours: a plan does not know the one that will adopt.
        installation = str((each["metadata"].get("annotations") or {}).get(INSTALLATION, ""))
        whose, words = owner(each, OurService(service, installation, b""))
        key = (str(each["spec"].get("group") or ""), str(each["spec"]["version"]))
        if whose is Owner.OTHER:
            others[key] = words
        elif whose is Owner.OURS:
            ours.add(key)
    return others, ours


def chosen(facts: Facts, selector: LabelSelector, service: Service) -> list[Family]:
    """The families that would be adopted, or that can't be. Those that are adopted already are left out."""
    others, ours = elsewhere(facts.api_services, service)
    refused = {}
    for crd in facts.crds:
        try:
            parse(crd)
        except DefinitionError as error:
            refused[str(crd["metadata"]["name"])] = str(error)
    found = families(facts.crds, selector, (), others, refused)
    return [family for family in found if not ours.intersection(family.group_versions)]


def plan(facts: Facts, wanted: Sequence[Family], most_bytes: int) -> JSONObject:
    """The plan, as `-o json` prints it. most_bytes: the limit of one object. Its member ok: whether nothing stands in the way."""
    by_name = {str(crd["metadata"]["name"]): crd for crd in facts.crds}
    general = [*facts.obstacles]
    needed = {
        access
        for family in wanted
        for name in family.definitions
        for access in access_of(by_name[name], has_host_etcd=facts.has_host_etcd)
    }
    lacking = [access for access in facts.denied if access not in needed]
    general += [f"the service account lacks the permission to {access}" for access in lacking]
    shown = [_family(facts, family, by_name, most_bytes) for family in wanted]
    return {
        "ok": not general and not any(each["obstacles"] for each in shown),
        "obstacles": general,
        "notes": [*facts.notes, *NOTES],
        "families": shown,
    }


def _family(facts: Facts, family: Family, crds: Mapping[str, JSONMapping], most_bytes: int) -> JSONObject:
    obstacles, notes = list(family.obstacles), []
    definitions = []
    denied = set(facts.denied)
    for name in family.definitions:
        crd = crds[name]
        needed = access_of(crd, has_host_etcd=facts.has_host_etcd)
        obstacles += [f"the service account lacks the permission to {each}" for each in needed if each in denied]
        conversion = crd["spec"].get("conversion") or {}
        if conversion.get("strategy") == "Webhook":
            notes.append(f"{name}: aggserver will call the conversion webhook {_address(conversion.get('webhook') or {})}")
        notes += [f"{name}: {each}" for each in _admission(facts, crd)]
        shown: JSONObject = {"name": name}
        sample = facts.samples.get(name)
        if sample is not None and sample.problem:
            obstacles.append(f"{name}: its objects can't be read: {sample.problem}")
        elif sample is not None:
            each = sample.size / sample.read if sample.read else 0.0
            seconds = sample.read_seconds / sample.read * sample.count if sample.read else 0.0
            shown |= {"objects": sample.count, "bytes": round(each * sample.count), "largest": sample.largest}
            shown |= {"sampled": sample.read, "secondsToRead": round(seconds, 1)}
            if sample.largest > most_bytes:
                obstacles.append(f"{name}: an object has {sample.largest} bytes, and --max-object-bytes is {most_bytes}")
        definitions.append(shown)
    return {
        "name": family.name,
        "groupVersions": [f"{group}/{version}" for group, version in family.group_versions],
        "definitions": definitions,
        "obstacles": obstacles,
        "notes": notes,
    }


def _admission(facts: Facts, crd: JSONMapping) -> list[str]:
    """Notes on the webhooks and policies that match a definition's objects: aggserver will apply them after the adoption."""
    group, plural = str(crd["spec"]["group"]), str(crd["spec"]["names"]["plural"])
    found = []
    for configuration in facts.webhooks:
        for webhook in configuration.get("webhooks") or ():
            if any(_matches(rule, group, plural) for rule in webhook.get("rules") or ()):
                where = _address(webhook)
                found.append(f"aggserver will call the admission webhook {webhook['name']} at {where}, and must reach it")
    for policy in facts.policies:
        rules = ((policy.get("spec") or {}).get("matchConstraints") or {}).get("resourceRules") or ()
        if any(_matches(rule, group, plural) for rule in rules):
            found.append(f"aggserver will apply the admission policy {policy['metadata']['name']}")
    return found


def _matches(rule: JSONMapping, group: str, plural: str) -> bool:
    groups = rule.get("apiGroups") or ()
    resources = {str(each).partition("/")[0] for each in rule.get("resources") or ()}
    return ("*" in groups or group in groups) and ("*" in resources or plural in resources)


def _address(webhook: JSONMapping) -> str:
    config = webhook.get("clientConfig") or {}
    service = config.get("service")
    if service:
        return f"Service {service.get('namespace')}/{service.get('name')}:{service.get('port') or 443}"
    return str(config.get("url") or "an unknown address")
