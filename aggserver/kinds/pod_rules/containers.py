"""Containers, init containers and ephemeral containers.

Pure. Source: validateContainers, validateInitContainers and validateEphemeralContainers in k8s.io/kubernetes
pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aggserver.kinds.pod_rules.environment import environment_problems, source_problems
from aggserver.kinds.pod_rules.probes import lifecycle_problems, probe_problems
from aggserver.kinds.pod_rules.requirements import requirement_problems
from aggserver.kinds.pod_rules.security import container_context_problems
from aggserver.kinds.pod_rules.texts import described, named, not_found, port_name
from aggserver.kinds.pod_rules.volumes import Volumes, device_problems, mount_problems
from aggserver.meta.field import FieldError, Path, duplicate, forbidden, invalid, not_supported, required, too_many
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_label

__all__ = ["Surroundings", "container_problems", "ephemeral_problems", "image_space_problems", "init_container_problems"]

_MESSAGES, _PULLS = ("File", "FallbackToLogsOnError"), ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTARTS, _ACTIONS = ("Always", "Never", "OnFailure"), ("Restart", "RestartAllContainers")
_RULE_OPERATORS = ("In", "NotIn")
_MAX_RULES, _MAX_CODES = 20, 255
_RESIZED, _RESIZES = ("cpu", "memory"), ("NotRequired", "RestartContainer")
_NO_POLICY = "must specify restartPolicy when restart rules are used"
_NOT_INIT = "may not be set for init containers without restartPolicy=Always"
_NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"
# Members that ephemeral containers can't have, in the order of Go's struct.
_OF_LASTING = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "volumeDevices",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)


class Surroundings(NamedTuple):
    """What the rules of containers need of their Pod. volumes: those without errors. claims: names of resource claims.

    grace: terminationGracePeriodSeconds. restart: the Pod's restartPolicy. host_users: whether it has the users of its node.
    """

    volumes: Volumes
    claims: frozenset[str]
    grace: int | None
    restart: str
    host_users: bool


def container_problems(containers: Sequence[JSONMapping], pod: Surroundings, path: Path) -> Iterator[FieldError]:
    if not containers:
        yield required(path)
        return
    names = set[str]()
    for index, container in enumerate(containers):
        where, name = path.index(index), container.get("name") or ""
        yield from _common(container, pod, where)
        if name in names:
            yield duplicate(where.child("name"), name)
        names.add(name)
        yield from _hooks_and_probes(container, pod, where)
        yield from _restart_rules(container, where)
    yield from _host_ports(containers, path)


def init_container_problems(
    containers: Sequence[JSONMapping], others: Sequence[JSONMapping], pod: Surroundings, path: Path
) -> Iterator[FieldError]:
    """others: the containers that start later, whose names must be different."""
    names = {container.get("name") or "" for container in others}
    for index, container in enumerate(containers):
        where, name, restart = path.index(index), container.get("name") or "", container.get("restartPolicy")
        yield from _common(container, pod, where)
        if restart is None and container.get("restartPolicyRules"):
            yield required(where.child("restartPolicy"), _NO_POLICY)
        elif restart is not None:
            yield from _restart_rules(container, where)
        if name in names:
            yield duplicate(where.child("name"), name)
        elif name:
            names.add(name)
        yield from _host_ports([container], path)
        if restart == "Always":
            yield from _hooks_and_probes(container, pod, where)
            continue
        for member in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if container.get(member) is not None:
                yield forbidden(where.child(member), _NOT_INIT)
        for place, policy in enumerate(container.get("resizePolicy") or ()):
            if (value := policy.get("restartPolicy")) == "RestartContainer":
                at = where.child("resizePolicy").index(place).child("restartPolicy")
                yield invalid(at, value, "must not be set to 'RestartContainer' for non-sidecar initContainers")


def ephemeral_problems(
    containers: Sequence[JSONMapping], others: Sequence[JSONMapping], pod: Surroundings, path: Path
) -> Iterator[FieldError]:
    """others: the containers and init containers."""
    lasting = {container.get("name") or "" for container in others}
    names = set(lasting)
    for index, container in enumerate(containers):
        where, name, target = path.index(index), container.get("name") or "", container.get("targetContainerName")
        yield from _common(container, pod, where)
        yield from image_space_problems(container, where)
        if name in names:
            yield duplicate(where.child("name"), name)
        names.add(name)
        if target and target not in lasting:
            yield not_found(where.child("targetContainerName"), target)
        for member in _OF_LASTING:
            if container.get(member):
                yield forbidden(where.child(member), _NOT_EPHEMERAL)
        for place, mount in enumerate(container.get("volumeMounts") or ()):
            for member in ("subPath", "subPathExpr"):
                if mount.get(member):
                    yield forbidden(where.child("volumeMounts").index(place).child(member), _NOT_EPHEMERAL)


def image_space_problems(container: JSONMapping, path: Path) -> Iterator[FieldError]:
    """Of Pods only: templates may have such an image."""
    image = container.get("image") or ""
    if image.strip() != image:
        yield invalid(path.child("image"), image, "must not have leading or trailing whitespace")


def _common(container: JSONMapping, pod: Surroundings, path: Path) -> Iterator[FieldError]:
    name, policy, pull = (container.get(member) or "" for member in ("name", "terminationMessagePolicy", "imagePullPolicy"))
    if not name:
        yield required(path.child("name"))
    else:
        yield from named(path.child("name"), name, dns1123_label)
    if not container.get("image"):
        yield required(path.child("image"))
    if not policy:
        yield required(path.child("terminationMessagePolicy"))
    elif policy not in _MESSAGES:
        yield not_supported(path.child("terminationMessagePolicy"), policy, _MESSAGES)
    if ports := container.get("ports"):
        yield from _ports(ports, path.child("ports"))
    if variables := container.get("env"):
        yield from environment_problems(variables, path.child("env"))
    if sources := container.get("envFrom"):
        yield from source_problems(sources, path.child("envFrom"))
    if container.get("volumeMounts"):
        yield from mount_problems(container, pod.volumes, path.child("volumeMounts"))
    if container.get("volumeDevices"):
        yield from device_problems(container, pod.volumes, path.child("volumeDevices"))
    if not pull:
        yield required(path.child("imagePullPolicy"))
    elif pull not in _PULLS:
        yield not_supported(path.child("imagePullPolicy"), pull, _PULLS)
    if resources := container.get("resources"):
        yield from requirement_problems(resources, pod.claims, path.child("resources"))
    if policies := container.get("resizePolicy"):
        yield from _resize(policies, pod.restart, path.child("resizePolicy"))
    yield from container_context_problems(
        container.get("securityContext"), path.child("securityContext"), host_users=pod.host_users
    )


def _ports(ports: Sequence[JSONMapping], path: Path) -> Iterator[FieldError]:
    names = set[str]()
    for index, port in enumerate(ports):
        where, protocol = path.index(index), port.get("protocol") or ""
        if name := port.get("name"):
            texts = list(port_name(name))
            yield from described(where.child("name"), name, texts)
            if not texts and name in names:
                yield duplicate(where.child("name"), name)
            elif not texts:
                names.add(name)
        if not (number := port.get("containerPort")):
            yield required(where.child("containerPort"))
        elif not 1 <= number <= 65535:
            yield invalid(where.child("containerPort"), number, "must be between 1 and 65535, inclusive")
        if (number := port.get("hostPort")) and not 1 <= number <= 65535:
            yield invalid(where.child("hostPort"), number, "must be between 1 and 65535, inclusive")
        if not protocol:
            yield required(where.child("protocol"))
        elif protocol not in _PROTOCOLS:
            yield not_supported(where.child("protocol"), protocol, _PROTOCOLS)


def _host_ports(containers: Sequence[JSONMapping], path: Path) -> Iterator[FieldError]:
    taken = set[str]()
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports") or ()):
            if number := port.get("hostPort"):
                text = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{number}"
                if text in taken:
                    yield duplicate(path.index(index).child("ports").index(place).child("hostPort"), text)
                taken.add(text)


def _hooks_and_probes(container: JSONMapping, pod: Surroundings, path: Path) -> Iterator[FieldError]:
    if (lifecycle := container.get("lifecycle")) is not None:
        yield from lifecycle_problems(lifecycle, pod.grace, path.child("lifecycle"))
    yield from probe_problems(container, pod.grace, path)


def _restart_rules(container: JSONMapping, path: Path) -> Iterator[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if not rules:
            return
        yield required(path.child("restartPolicy"), _NO_POLICY)
    elif policy not in _RESTARTS:
        yield not_supported(path.child("restartPolicy"), policy, _RESTARTS)
    where = path.child("restartPolicyRules")
    if len(rules) > _MAX_RULES:
        yield too_many(where, len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        at, codes = where.index(index), rule.get("exitCodes")
        if (action := rule.get("action") or "") not in _ACTIONS:
            yield not_supported(at.child("action"), action, _ACTIONS)
        if codes is None:
            yield required(at.child("exitCodes"), "must be specified")
            continue
        if (operator := codes.get("operator") or "") not in _RULE_OPERATORS:
            yield not_supported(at.child("exitCodes").child("operator"), operator, _RULE_OPERATORS)
        if len(values := codes.get("values") or ()) > _MAX_CODES:
            yield too_many(at.child("exitCodes").child("values"), len(values), _MAX_CODES)


def _resize(policies: Sequence[JSONMapping], restart: str, path: Path) -> Iterator[FieldError]:
    """As upstream, most of its errors have no index."""
    taken = set[str]()
    for index, policy in enumerate(policies):
        name, value = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in taken:
            yield duplicate(path.index(index), name)
        taken.add(name)
        for given, values in ((name, _RESIZED), (value, _RESIZES)):
            if not given:
                yield required(path)
            elif given not in values:
                yield not_supported(path, given, values)
        if restart == "Never" and value != "NotRequired":
            yield invalid(path, value, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
