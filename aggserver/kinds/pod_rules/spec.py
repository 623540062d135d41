"""A Pod, or a template of Pods, as a whole: its spec's rules in upstream's order, and those of its annotations.

Pure. Source: validatePodMetadataAndSpec, ValidatePodSpec and ValidatePodTemplateSpec in k8s.io/kubernetes
pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aggserver.kinds.pod_rules.containers import (
    Surroundings,
    container_problems,
    ephemeral_problems,
    image_space_problems,
    init_container_problems,
)
from aggserver.kinds.pod_rules.environment import file_volume_problems
from aggserver.kinds.pod_rules.requirements import overhead_problems, pod_resource_problems
from aggserver.kinds.pod_rules.scheduling import affinity_problems, spread_problems
from aggserver.kinds.pod_rules.security import (
    annotation_match_problems,
    host_process_problems,
    host_user_problems,
    os_problems,
    pod_context_problems,
)
from aggserver.kinds.pod_rules.texts import address_problems, described, named, relative_path, search_domain
from aggserver.kinds.pod_rules.volumes import volume_problems
from aggserver.kinds.tolerations import toleration_problems
from aggserver.meta.field import FieldError, Path, duplicate, forbidden, invalid, not_supported, required, too_long
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_label, dns1123_subdomain, qualified_name
from aggserver.scheme.object_meta import validate_annotations, validate_labels

__all__ = ["annotation_problems", "pod_problems", "template_problems"]

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_RESTARTS = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTIONS = ("PreemptLowerPriority", "Never")
_MAX_SERVERS, _MAX_SEARCHES, _MAX_SEARCH_TEXT = 3, 32, 2048
_MAX_INT32 = 2**31 - 1
_MAX_HOST_NAME = 64
_MIRROR, _COST = "kubernetes.io/config.mirror", "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD, _SECCOMP = "seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def pod_problems(pod: JSONMapping, *, is_new: bool) -> Iterator[FieldError]:
    """The errors of a Pod's annotations and spec. Those of other metadata come before."""
    spec, metadata, path = pod["spec"], pod["metadata"], Path("spec")
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    yield from annotation_problems(annotations, spec, Path("metadata").child("annotations"))
    yield from _spec(spec, metadata, path, is_pod=True)
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for place, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    where = path.child("volumes").index(index).child("projected").child("sources").index(place)
                    text = "must not be specified when serviceAccountName is not set"
                    yield forbidden(where.child("serviceAccountToken"), text)
    for member in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(member) or ()):
            yield from image_space_problems(container, path.child(member).index(index))
    if is_new:
        if spec.get("ephemeralContainers"):
            yield forbidden(path.child("ephemeralContainers"), "cannot be set on create")
        if spec.get("nodeName") and spec.get("schedulingGates"):
            yield forbidden(path.child("nodeName"), "cannot be set until all schedulingGates have been cleared")
        yield from annotation_match_problems(annotations, spec, _all(spec, path), path)


def template_problems(template: JSONMapping, path: Path) -> Iterator[FieldError]:
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    yield from validate_labels(metadata.get("labels") or {}, path.child("labels"))
    yield from validate_annotations(annotations, path.child("annotations"))
    yield from annotation_problems(annotations, spec, path.child("annotations"))
    where = path.child("spec")
    yield from _spec(spec, None, where, is_pod=False)
    yield from annotation_match_problems(annotations, spec, _all(spec, where), where)
    if spec.get("ephemeralContainers"):
        yield forbidden(where.child("ephemeralContainers"), "ephemeral containers not allowed in pod template")


def _all(spec: JSONMapping, path: Path) -> list[tuple[JSONMapping, Path]]:
    """The containers of all kinds, with their paths."""
    return [
        (container, path.child(member).index(index))
        for member in _CONTAINERS
        for index, container in enumerate(spec.get(member) or ())
    ]


def annotation_problems(annotations: Mapping[str, str], spec: JSONMapping, path: Path) -> Iterator[FieldError]:
    """The errors of annotations that Kubernetes itself reads."""
    if not annotations:
        return
    if _MIRROR in annotations and not spec.get("nodeName"):
        yield invalid(path.key(_MIRROR), annotations[_MIRROR], "must set spec.nodeName if mirror pod annotation is set")
    if (cost := annotations.get(_COST)) is not None and not _is_int32(cost):
        yield invalid(path.key(_COST), cost, "must be a 32bit integer")
    if (profile := annotations.get(_SECCOMP_POD)) is not None:
        yield from _seccomp(profile, path.child(_SECCOMP_POD))
    for name, profile in annotations.items():
        if name.startswith(_SECCOMP):
            yield from _seccomp(profile, path.child(name))
    for name, profile in annotations.items():
        if name.startswith(_APP_ARMOR):
            yield from _app_armor(name, profile, spec, path)


def _is_int32(text: str) -> bool:
    """Whether upstream reads it as one: decimal, without leading zeros or plus."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 10 or (len(digits) > 1 and digits[0] == "0"):
        return False
    return -_MAX_INT32 - 1 <= int(text) <= _MAX_INT32 and text != "-0"


def _seccomp(profile: str, path: Path) -> Iterator[FieldError]:
    if profile.startswith("localhost/"):
        yield from relative_path(profile.removeprefix("localhost/"), path)
    elif profile not in ("runtime/default", "docker/default", "unconfined"):
        yield invalid(path, profile, "must be a valid seccomp profile")


def _app_armor(name: str, profile: str, spec: JSONMapping, path: Path) -> Iterator[FieldError]:
    container = name.removeprefix(_APP_ARMOR)
    if all(each.get("name") != container for member in _CONTAINERS for each in spec.get(member) or ()):
        yield invalid(path.key(name), container, "container not found")
    if profile not in ("", "runtime/default", "unconfined") and not profile.startswith("localhost/"):
        yield invalid(path.key(name), profile, f'invalid AppArmor profile name: "{profile}"')


def _spec(spec: JSONMapping, metadata: JSONMapping | None, path: Path, *, is_pod: bool) -> Iterator[FieldError]:
    """metadata: of a Pod, None for a template."""
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        yield required(path.child("terminationGracePeriodSeconds"))
    pod_name = "" if metadata is None else metadata.get("name") or ""
    volumes, problems = volume_problems(spec.get("volumes") or (), pod_name, path.child("volumes"))
    yield from problems
    claims = spec.get("resourceClaims") or ()
    if claims:
        yield from _resource_claims(spec, metadata, path.child("resourceClaims"))
    pod = Surroundings(
        volumes,
        frozenset(claim["name"] for claim in claims if claim.get("name")),
        grace,
        spec.get("restartPolicy") or "",
        spec.get("hostUsers") is not False,
    )
    containers, first = spec.get("containers") or (), spec.get("initContainers") or ()
    yield from container_problems(containers, pod, path.child("containers"))
    if first:
        yield from init_container_problems(first, containers, pod, path.child("initContainers"))
    if later := spec.get("ephemeralContainers"):
        yield from ephemeral_problems(later, [*containers, *first], pod, path.child("ephemeralContainers"))
    yield from pod_resource_problems(spec, path)
    if spec.get("hostNetwork"):
        yield from _host_network(spec, path.child("containers"), is_pod=is_pod)
    yield from _one_of(spec, "restartPolicy", _RESTARTS, path)
    yield from _one_of(spec, "dnsPolicy", _DNS, path)
    yield from validate_labels(spec.get("nodeSelector") or {}, path.child("nodeSelector"))
    yield from pod_context_problems(spec, path)
    yield from affinity_problems(spec.get("affinity"), path.child("affinity"))
    yield from _dns(spec, path.child("dnsConfig"))
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        where = path.child("readinessGates").index(index).child("conditionType")
        yield from described(where, gate.get("conditionType") or "", qualified_name(gate.get("conditionType") or ""))
    yield from _scheduling_gates(spec, path.child("schedulingGates"))
    yield from spread_problems(spec.get("topologySpreadConstraints") or (), path.child("topologySpreadConstraints"))
    every = _all(spec, path)
    yield from host_process_problems(spec, every, path)
    yield from host_user_problems(spec, every, path)
    yield from _host_name(spec, path.child("hostnameOverride"))
    yield from _names(spec, path)
    yield from toleration_problems(spec.get("tolerations") or (), path.child("tolerations"))
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        where = path.child("hostAliases").index(index)
        yield from address_problems(alias.get("ip") or "", where.child("ip"))
        for place, name in enumerate(alias.get("hostnames") or ()):
            yield from named(where.child("hostnames").index(place), name, dns1123_subdomain)
    for member in ("priorityClassName", "runtimeClassName"):
        if (name := spec.get(member)) is not None and (name or member == "runtimeClassName"):
            yield from named(path.child(member), name, dns1123_subdomain)
    if spec.get("preemptionPolicy") is not None:
        yield from _one_of(spec, "preemptionPolicy", _PREEMPTIONS, path)
    if (overhead := spec.get("overhead")) is not None:
        yield from overhead_problems(overhead, path.child("overhead"))
    yield from os_problems(spec, every, path)
    if (group := spec.get("schedulingGroup")) is not None and group.get("podGroupName") is None:
        yield invalid(path.child("schedulingGroup").child("podGroupName"), None, "must specify one of: `podGroupName`")
    yield from file_volume_problems(every, spec.get("volumes") or ())


def _resource_claims(spec: JSONMapping, metadata: JSONMapping | None, path: Path) -> Iterator[FieldError]:
    is_mirror = metadata is not None and _MIRROR in (metadata.get("annotations") or {})
    taken = set[str]()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        if is_mirror:
            yield forbidden(Path(""), "static pods do not support resource claims")
            continue
        where, name = path.index(index), claim.get("name") or ""
        if not name:
            yield required(where.child("name"))
        elif name in taken:
            yield duplicate(where.child("name"), name)
        else:
            yield from named(where.child("name"), name, dns1123_label)
            taken.add(name)
        sources = [member for member in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(member) is not None]
        shown = {"Name": name} | {
            f"{member[0].upper()}{member[1:]}": claim.get(member) for member in ("resourceClaimName", "resourceClaimTemplateName")
        }
        if len(sources) > 1:
            yield invalid(where, shown, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
        if not sources:
            yield invalid(where, shown, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for member in sources:
            yield from named(where.child(member), claim[member], dns1123_subdomain)


def _host_network(spec: JSONMapping, path: Path, *, is_pod: bool) -> Iterator[FieldError]:
    for index, container in enumerate(spec.get("containers") or ()):
        for place, port in enumerate(container.get("ports") or ()):
            number = port.get("hostPort") or 0
            if (is_pod or number) and number != (port.get("containerPort") or 0):
                where = path.index(index).child("ports").index(place).child("hostPort")
                yield invalid(where, number, "must match `containerPort` when `hostNetwork` is true")


def _one_of(spec: JSONMapping, name: str, values: tuple[str, ...], path: Path) -> Iterator[FieldError]:
    value = spec.get(name) or ""
    if not value:
        yield required(path.child(name))
    elif value not in values:
        yield not_supported(path.child(name), value, values)


def _dns(spec: JSONMapping, path: Path) -> Iterator[FieldError]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(path.child("nameservers"), text)
            return
    if config is None:
        return
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > _MAX_SERVERS:
        yield invalid(path.child("nameservers"), servers, f"must not have more than {_MAX_SERVERS} nameservers")
    for index, server in enumerate(servers):
        yield from address_problems(server, path.child("nameservers").index(index))
    if len(searches) > _MAX_SEARCHES:
        yield invalid(path.child("searches"), searches, f"must not have more than {_MAX_SEARCHES} search paths")
    if len(" ".join(searches).encode()) > _MAX_SEARCH_TEXT:
        text = f"must not have more than {_MAX_SEARCH_TEXT} characters (including spaces) in the search list"
        yield invalid(path.child("searches"), searches, text)
    for index, search in enumerate(searches):
        if search != ".":
            search = search.removesuffix(".")
            yield from described(path.child("searches").index(index), search, search_domain(search))
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required(path.child("options").index(index), "must not be empty")


def _scheduling_gates(spec: JSONMapping, path: Path) -> Iterator[FieldError]:
    taken = set[str]()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name") or ""
        yield from described(path.index(index), name, qualified_name(name))
        if name in taken:
            yield duplicate(path.index(index), name)
        taken.add(name)


def _host_name(spec: JSONMapping, path: Path) -> Iterator[FieldError]:
    name = spec.get("hostnameOverride")
    if name is None:
        return
    for member in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(member):
            yield forbidden(path, f"may not be specified when {member} is true")
    if len(name.encode()) > _MAX_HOST_NAME:
        yield too_long(path, _MAX_HOST_NAME)
    yield from named(path, name, dns1123_subdomain)


def _names(spec: JSONMapping, path: Path) -> Iterator[FieldError]:
    for member in ("serviceAccountName", "nodeName"):
        if name := spec.get(member):
            yield from named(path.child(member), name, dns1123_subdomain)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        yield invalid(path.child("activeDeadlineSeconds"), deadline, f"must be between 1 and {_MAX_INT32}, inclusive")
    for member in ("hostname", "subdomain"):
        if name := spec.get(member):
            yield from named(path.child(member), name, dns1123_label)
