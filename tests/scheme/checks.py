"""What kube-apiserver refuses: aggserver/scheme/tables/checks.txt, from its answers to objects in which one member is wrong.

The objects are those of given.yaml and checked.yaml in tests/cases/kinds, which it accepts. In each, one member after the other
is taken away, set to a text that means nothing, or to numbers out of range, and the object is sent as a dry run.
"""

from __future__ import annotations

import contextlib
import copy
import http.client
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from aggserver.scheme.types import Type, lookup
from tests.cases.kind_objects import api_version, checked, given, is_namespaced
from tests.controlplane.cluster import Cluster

__all__ = ["Answered", "Ask", "answered", "asking", "checks", "url"]

Ask = Callable[[str, str, Any], Any]
"""(method, path, body) -> the answer's body."""

BOGUS = "Bogus"
_NUMBERS = (-1, 0, 2**31 - 1)

# Members that are missed only because of what other members say, and of what those refuse.
_CONDITIONAL = {
    *(f"autoscaling/v2.MetricSpec.{name}" for name in ("containerResource", "external", "object", "pods", "resource")),
    "autoscaling/v2.MetricTarget.averageUtilization",
    *(f"batch/v1.JobSpec.{name}" for name in ("podReplacementPolicy", "selector")),
    "core/v1.AppArmorProfile.localhostProfile",
    "core/v1.AzureDiskVolumeSource.diskURI",
    "core/v1.EndpointPort.name",
    *(f"core/v1.Event.{name}" for name in ("action", "reportingComponent", "reportingInstance")),
    *(f"core/v1.FCVolumeSource.{name}" for name in ("lun", "targetWWNs")),
    "core/v1.PersistentVolumeSpec.capacity",
    "core/v1.PodDNSConfig.nameservers",
    "core/v1.SeccompProfile.localhostProfile",
    "core/v1.ServicePort.name",
    "core/v1.ServiceSpec.externalName",
    "flowcontrol/v1.LimitResponse.queuing",
    "flowcontrol/v1.PriorityLevelConfigurationSpec.limited",
    "flowcontrol/v1.ResourcePolicyRule.namespaces",
    *(f"flowcontrol/v1.Subject.{name}" for name in ("group", "serviceAccount", "user")),
    "meta/v1.LabelSelectorRequirement.values",
    "networking/v1.IngressClassParametersReference.namespace",
    "networking/v1.ServiceCIDRSpec.cidrs",
    *(f"rbac/v1.PolicyRule.{name}" for name in ("apiGroups", "resources")),
    *(f"resource/v1.{name}Configuration.opaque" for name in ("DeviceClaim", "DeviceClass")),
}

# The ends of a range that an error tells, and the pattern for the error.
_RANGES = (
    (re.compile(r"must be greater than or equal to (\d+)"), None),
    (re.compile(r"must be greater than zero"), 1),
    (re.compile(r"must be between (\d+) and (\d+), inclusive"), None),
    (re.compile(r"must be in the range (\d+)-(\d+)"), None),
)
_SUPPORTED = re.compile(r'Unsupported value: ".*?": supported values: (.*)')
_INVALID = re.compile(r"Invalid value: (-?\d+): (.*)")


class _Place(NamedTuple):
    """A member of a struct in an object. text: its path."""

    of: Type
    name: str
    struct: dict[str, Any]
    text: str


class Answered(NamedTuple):
    """obj: with the wrong value, None for none. causes: fields and messages of the answer."""

    type_name: str
    obj: dict[str, Any]
    place: _Place
    value: Any
    is_refused: bool
    causes: list[tuple[str, str]]


@contextlib.contextmanager
def asking(cluster: Cluster) -> Iterator[Ask]:
    with cluster.running_kubectl("proxy", "--port=0") as proxy:
        assert proxy.stdout is not None
        port = proxy.stdout.readline().rpartition(":")[2]
        connection = http.client.HTTPConnection("127.0.0.1", int(port))

        def ask(method: str, path: str, body: Any) -> Any:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())

        with contextlib.closing(connection):
            yield ask


def url(ask: Ask, type_name: str, namespace: str) -> str:
    """Where objects of a kind are created."""
    version = api_version(type_name)
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    kind = type_name.rpartition(".")[2]
    resources = ask("GET", base, None)["resources"]
    (resource,) = (each["name"] for each in resources if each["kind"] == kind and "/" not in each["name"])
    return f"{base}/namespaces/{namespace}/{resource}" if is_namespaced(type_name) else f"{base}/{resource}"


def answered(ask: Ask) -> Iterator[Answered]:
    """Every object with every wrong value, and what kube-apiserver says of it."""
    urls: dict[tuple[str, str], str] = {}
    for type_name, _, obj in (*given(), *checked()):
        key = (type_name, obj["metadata"].get("namespace", ""))
        if key not in urls:
            urls[key] = f"{url(ask, *key)}?dryRun=All"
        for place in list(_places(obj, lookup(type_name), "")):
            member = place.of.members[place.name]
            before = dict(place.struct)
            for value in _wrong(member.type.kind, place.struct[place.name]):
                if value is None:
                    del place.struct[place.name]
                else:
                    place.struct[place.name] = value
                answer = ask("POST", urls[key], obj)
                told = (answer.get("details") or {}).get("causes") or [] if answer["kind"] == "Status" else []
                causes = [(cause.get("field", ""), cause["message"]) for cause in told]
                yield Answered(type_name, copy.deepcopy(obj), place, value, answer["kind"] == "Status", causes)
                place.struct.clear()
                place.struct.update(before)


def checks(answers: Iterable[Answered]) -> str:
    """The table."""
    # Member -> what is told of it when it is missing, when it is a wrong text, and when it is a number; '' if nothing is.
    missing: dict[str, set[str]] = defaultdict(set)
    texts: dict[str, set[str]] = defaultdict(set)
    numbers: dict[str, set[str]] = defaultdict(set)
    for each in answers:
        place = each.place
        member, name = place.of.members[place.name], f"{place.of.full_name}.{place.name}"
        told = next((message for field, message in each.causes if field == place.text), "")
        if isinstance(each.value, str):
            texts[name].add(told)
        elif each.value is not None:
            numbers[name].add(told)
        elif member.pointer or member.type.kind != "struct":
            missing[name].add(told)
    return _table(missing, texts, numbers)


def _wrong(kind: str, value: Any) -> list[Any]:
    if kind == "string":
        return [None, BOGUS]
    is_number = isinstance(value, int) and kind in ("int32", "int64", "int-or-string")
    return [None, *_NUMBERS] if is_number else [None]


def _places(value: Any, of: Type, path: str) -> Iterator[_Place]:
    if of.kind == "struct" and of.name != "v1.ObjectMeta":
        for name, member in of.members.items():
            text = f"{path}.{name}" if path else name
            if name in value and not member.embedded.startswith("TypeMeta") and text not in ("metadata", "status"):
                yield _Place(of, name, value, text)
                yield from _places(value[name], member.type, text)
    elif of.element is not None:
        for key, inner in enumerate(value) if isinstance(value, list) else value.items():
            yield from _places(inner, of.element, f"{path}[{key}]")


def _table(missing: dict[str, set[str]], texts: dict[str, set[str]], numbers: dict[str, set[str]]) -> str:
    found: dict[str, list[str]] = defaultdict(list)
    for name, told in missing.items():
        message = next(iter(told)) if len(told) == 1 else ""
        if message.startswith("Required value") and name not in _CONDITIONAL:
            found[name].append(f"required {message.removeprefix('Required value').removeprefix(': ')}".strip())
    for name, told in texts.items():
        supported = {match[1] for match in map(_SUPPORTED.fullmatch, told) if match}
        # Where other errors are told, too, the text is wrong anyway; where none is, it is wrong only sometimes.
        if len(supported) == 1 and "" not in told:
            always = [message for message in missing[name] if _SUPPORTED.fullmatch(message)] and len(missing[name]) == 1
            values = json.loads(f"[{supported.pop()}]")
            if name not in _CONDITIONAL:
                found[name].append(f"{'always' if always else 'one-of'} {','.join(values)}")
    for name, told in numbers.items():
        if ends := {_range(message) for message in told} - {""}:
            found[name] += [f"range {each}" for each in ends] if len(ends) == 1 else []
    lines = [f"{name} {check}\n" for name in sorted(found) for check in found[name]]
    return "".join(lines)


def _range(message: str) -> str:
    """`1 65535 must be between 1 and 65535, inclusive`; `-` for no end."""
    told = _INVALID.fullmatch(message)
    for pattern, least in _RANGES if told else ():
        if told and (match := pattern.fullmatch(told[2])):
            ends = match.groups() or (str(least),)
            return f"{ends[0]} {ends[1] if len(ends) > 1 else '-'} {told[2]}"
    return ""
