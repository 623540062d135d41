"""The Pod Security Standards: what the levels baseline and restricted forbid in a Pod, in each version of them.

A check has a reason and a detail, which are upstream's texts. It belongs to a level; those of `restricted` may stand for one of
`baseline`. Which function a check is depends on the version of the policy, since upstream adds exceptions and allowed values.
Pure. Source: k8s.io/pod-security-admission policy/check_*.go, policy/registry.go, api/helpers.go, v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from aggserver.meta.field import FieldError, Path, invalid
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONMapping

__all__ = ["PREFIX", "NamespacePolicy", "Standard", "Violation", "detail", "evaluate", "is_stricter", "policy_of", "reasons"]

PREFIX = "pod-security.kubernetes.io/"
_LEVELS = ("privileged", "baseline", "restricted")
_VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")
# Of the newest check. Policies of later versions are the same as of this one.
_NEWEST = 35
_LABELS = Path("metadata").child("labels")


class Standard(NamedTuple):
    """A level, and the minor version of Kubernetes whose checks apply; None for the latest."""

    level: str = "privileged"
    version: int | None = None

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.version is None else f'v1.{self.version}'}"


class NamespacePolicy(NamedTuple):
    """What the labels of a namespace ask for."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()


class Violation(NamedTuple):
    reason: str
    detail: str


def is_stricter(level: str, other: str) -> bool:
    return _LEVELS.index(level) > _LEVELS.index(other)


def policy_of(labels: Mapping[str, str]) -> tuple[NamespacePolicy, list[FieldError]]:
    """The policy of a namespace, and the errors of its labels. With errors, enforce is restricted, the others privileged."""
    problems: list[FieldError] = []
    found: dict[str, Standard] = {}
    right = set[str]()
    for mode in NamespacePolicy._fields:
        level, version = "privileged", None
        if (given := labels.get(PREFIX + mode)) is not None:
            if given in _LEVELS:
                level = given
                right.add(mode)
            else:
                level = "restricted" if mode == "enforce" else "privileged"
                problems.append(invalid(_LABELS.key(PREFIX + mode), given, f"must be one of {', '.join(_LEVELS)}"))
        name = f"{PREFIX}{mode}-version"
        if (given := labels.get(name)) is not None and given != "latest":
            if match := _VERSION.fullmatch(given):
                version = int(match[1])
            else:
                problems.append(invalid(_LABELS.key(name), given, 'must be "latest" or "v1.x"'))
        found[mode] = Standard(level, version)
    policy = NamespacePolicy(**found)
    if PREFIX + "warn" not in labels and "enforce" in right and is_stricter(policy.enforce.level, policy.warn.level):
        version = policy.warn.version if f"{PREFIX}warn-version" in labels else policy.enforce.version
        policy = policy._replace(warn=Standard(policy.enforce.level, version))
    return policy, problems


def evaluate(standard: Standard, annotations: Mapping[str, str], spec: JSONMapping) -> list[Violation]:
    """What a Pod violates, in upstream's order. annotations: of its metadata."""
    if standard.level == "privileged":
        return []
    version = _NEWEST if standard.version is None else min(standard.version, _NEWEST)
    pod = _Pod(annotations, spec)
    chosen = {name: check for name, versions in _BASELINE.items() if (check := _at(versions, version)) is not None}
    restricted = {}
    if standard.level == "restricted":
        restricted = {name: check for name, versions in _RESTRICTED.items() if (check := _at(versions, version)) is not None}
        for name in restricted:
            chosen.pop(_OVERRIDDEN.get(name, ""), None)
    found = (check(pod) for check in (*chosen.values(), *restricted.values()))
    return [violation for violation in found if violation is not None]


def reasons(violations: Iterable[Violation]) -> str:
    return ", ".join(each.reason for each in violations)


def detail(violations: Iterable[Violation]) -> str:
    return ", ".join(f"{each.reason} ({each.detail})" for each in violations)


class _Pod:
    """What the checks look at. contexts: the security contexts of the containers, in the order init, others, ephemeral."""

    def __init__(self, annotations: Mapping[str, str], spec: JSONMapping) -> None:
        self.annotations = annotations
        self.spec = spec
        self.containers: list[JSONMapping] = [
            each for member in ("initContainers", "containers", "ephemeralContainers") for each in spec.get(member) or ()
        ]
        self.contexts = [(str(each.get("name") or ""), each.get("securityContext") or {}) for each in self.containers]
        self.context: JSONMapping = spec.get("securityContext") or {}

    @property
    def is_windows(self) -> bool:
        return (self.spec.get("os") or {}).get("name") == "windows"

    @property
    def has_user_namespace(self) -> bool:
        return self.spec.get("hostUsers") is False


_Check = Callable[[_Pod], Violation | None]
# Minor version since which a check is made -> the check, oldest first.
_Versions = Mapping[int, _Check]


def _at(versions: _Versions, version: int) -> _Check | None:
    return next((check for since, check in reversed(list(versions.items())) if since <= version), None)


def _listed(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _some(one: str, many: str, items: Sequence[str]) -> str:
    """`container "a"` or `containers "a", "b"`."""
    return f"{one if len(items) == 1 else many} {_listed(items)}"


def _bad(pod: _Pod, is_bad: Callable[[JSONMapping], bool]) -> list[str]:
    return [name for name, context in pod.contexts if is_bad(context)]


def _setters(in_pod: bool, containers: Sequence[str]) -> list[str]:
    return [*(["pod"] if in_pod else []), *([_some("container", "containers", containers)] if containers else [])]


# --- baseline ---

_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def _app_armor(pod: _Pod) -> Violation | None:
    values = set[str]()

    def is_bad(context: JSONMapping) -> bool:
        profile = context.get("appArmorProfile")
        kind = str((profile or {}).get("type") or "")
        if profile is None or kind in ("RuntimeDefault", "Localhost"):
            return False
        values.add(kind)
        return True

    setters = _setters(is_bad(pod.context), _bad(pod, is_bad))
    marked = sorted(
        f"{key}={quote(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if marked:
        setters.append("annotation" if len(marked) == 1 else "annotations")
    if not setters:
        return None
    shown = [*sorted(values), *marked]
    reason = f"forbidden AppArmor {'profile' if len(shown) == 1 else 'profiles'}"
    return Violation(reason, f"{' and '.join(setters)} must not set AppArmor profile type to {_listed(shown)}")


_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)


def _added(context: JSONMapping, allowed: frozenset[str]) -> list[str]:
    return [each for each in (context.get("capabilities") or {}).get("add") or () if each not in allowed]


def _capabilities(pod: _Pod) -> Violation | None:
    bad = _bad(pod, lambda context: bool(_added(context, _CAPABILITIES)))
    if not bad:
        return None
    added = sorted({each for _, context in pod.contexts for each in _added(context, _CAPABILITIES)})
    who = _some("container", "containers", bad)
    return Violation("non-default capabilities", f"{who} must not include {_listed(added)} in securityContext.capabilities.add")


def _host_namespaces(pod: _Pod) -> Violation | None:
    used = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    return Violation("host namespaces", ", ".join(used)) if used else None


def _host_paths(pod: _Pod) -> Violation | None:
    bad = [each.get("name") or "" for each in pod.spec.get("volumes") or () if each.get("hostPath") is not None]
    return Violation("hostPath volumes", _some("volume", "volumes", bad)) if bad else None


def _host_ports(pod: _Pod) -> Violation | None:
    used = [
        (str(each.get("name") or ""), [str(port["hostPort"]) for port in each.get("ports") or () if port.get("hostPort")])
        for each in pod.containers
    ]
    bad = [name for name, ports in used if ports]
    if not bad:
        return None
    ports = sorted({port for _, each in used for port in each})
    uses, noun = "uses" if len(bad) == 1 else "use", "hostPort" if len(ports) == 1 else "hostPorts"
    return Violation("hostPort", f"{_some('container', 'containers', bad)} {uses} {noun} {', '.join(ports)}")


def _hosts(container: JSONMapping) -> Iterator[str]:
    hooks = container.get("lifecycle") or {}
    handlers = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    for handler in (*handlers, hooks.get("postStart"), hooks.get("preStop")):
        for way in ("httpGet", "tcpSocket"):
            if host := ((handler or {}).get(way) or {}).get("host"):
                yield host


def _probe_hosts(pod: _Pod) -> Violation | None:
    used = [(str(each.get("name") or ""), list(_hosts(each))) for each in pod.containers]
    bad = sorted({name for name, hosts in used if hosts})
    if not bad:
        return None
    hosts = sorted({host for _, each in used for host in each})
    uses = "uses" if len(bad) == 1 else "use"
    what = _some("probe or lifecycle host", "probe or lifecycle hosts", hosts)
    return Violation("probe or lifecycle host", f"{_some('container', 'containers', bad)} {uses} {what}")


def _privileged(pod: _Pod) -> Violation | None:
    bad = _bad(pod, lambda context: bool(context.get("privileged")))
    who = _some("container", "containers", bad)
    return Violation("privileged", f"{who} must not set securityContext.privileged=true") if bad else None


def _proc_mount(pod: _Pod) -> Violation | None:
    bad = _bad(pod, lambda context: context.get("procMount") not in (None, "Default"))
    if not bad:
        return None
    kinds = sorted({str(each.get("procMount")) for _, each in pod.contexts if each.get("procMount") not in (None, "Default")})
    who = _some("container", "containers", bad)
    return Violation("procMount", f"{who} must not set securityContext.procMount to {_listed(kinds)}")


def _unless_user_namespace(check: _Check) -> _Check:
    return lambda pod: None if pod.has_user_namespace else check(pod)


def _unless_windows(check: _Check) -> _Check:
    return lambda pod: None if pod.is_windows else check(pod)


_SELINUX = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})


def _selinux(allowed: frozenset[str], pod: _Pod) -> Violation | None:
    given = [(name, context.get("seLinuxOptions") or {}) for name, context in (("", pod.context), *pod.contexts)]

    def is_bad(options: JSONMapping) -> bool:
        return (options.get("type") or "") not in allowed or bool(options.get("user") or options.get("role"))

    bad = [name for name, options in given[1:] if is_bad(options)]
    setters = _setters(is_bad(given[0][1]), bad)
    if not setters:
        return None
    types = sorted({options.get("type") or "" for _, options in given} - allowed)
    said = [_some("type", "types", types)] if types else []
    said += [f"{name} may not be set" for name in ("user", "role") if any(options.get(name) for _, options in given)]
    return Violation("seLinuxOptions", f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(said)}")


_SECCOMP_POD, _SECCOMP_CONTAINER = "seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/"


def _seccomp_annotations(pod: _Pod) -> Violation | None:
    names = {_SECCOMP_POD, *(_SECCOMP_CONTAINER + name for name, _ in pod.contexts)}
    bad = sorted(
        f"{name}={quote(value)}"
        for name, value in pod.annotations.items()
        if name in names and value not in ("runtime/default", "docker/default") and not value.startswith("localhost/")
    )
    what = "annotation" if len(bad) == 1 else "annotations"
    return Violation("seccompProfile", f"forbidden {what} {', '.join(bad)}") if bad else None


def _seccomp(is_required: bool, pod: _Pod) -> Violation | None:
    values = set[str]()

    def is_bad(context: JSONMapping) -> bool:
        profile = context.get("seccompProfile")
        kind = str((profile or {}).get("type") or "")
        if profile is None or kind in ("RuntimeDefault", "Localhost"):
            return False
        values.add(kind)
        return True

    in_pod = is_bad(pod.context)
    if setters := _setters(in_pod, _bad(pod, is_bad)):
        what = f"must not set securityContext.seccompProfile.type to {_listed(sorted(values))}"
        return Violation("seccompProfile", f"{' and '.join(setters)} {what}")
    if not is_required or pod.context.get("seccompProfile") is not None:
        return None
    bad = _bad(pod, lambda context: context.get("seccompProfile") is None)
    what = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {_some('container', 'containers', bad)} {what}") if bad else None


_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def _sysctls(allowed: frozenset[str], pod: _Pod) -> Violation | None:
    names = [each.get("name") or "" for each in pod.context.get("sysctls") or ()]
    bad = [name for name in names if name not in allowed]
    return Violation("forbidden sysctls", ", ".join(bad)) if bad else None


def _host_process(pod: _Pod) -> Violation | None:
    def is_bad(context: JSONMapping) -> bool:
        return bool((context.get("windowsOptions") or {}).get("hostProcess"))

    setters = _setters(is_bad(pod.context), _bad(pod, is_bad))
    what = "must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", f"{' and '.join(setters)} {what}") if setters else None


# --- restricted ---


def _escalation(pod: _Pod) -> Violation | None:
    bad = _bad(pod, lambda context: context.get("allowPrivilegeEscalation") is not False)
    who = _some("container", "containers", bad)
    what = f"{who} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", what) if bad else None


_BIND = frozenset({"NET_BIND_SERVICE"})


def _few_capabilities(pod: _Pod) -> Violation | None:
    keep = _bad(pod, lambda context: "ALL" not in ((context.get("capabilities") or {}).get("drop") or ()))
    add = _bad(pod, lambda context: bool(_added(context, _BIND)))
    said = []
    if keep:
        said.append(f'{_some("container", "containers", keep)} must set securityContext.capabilities.drop=["ALL"]')
    if add:
        added = _listed(sorted({each for _, context in pod.contexts for each in _added(context, _BIND)}))
        said.append(f"{_some('container', 'containers', add)} must not include {added} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(said)) if said else None


_VOLUMES = frozenset(
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret"]
)


def _volumes(pod: _Pod) -> Violation | None:
    bad, kinds = [], set[str]()
    for volume in pod.spec.get("volumes") or ():
        sources = [name for name, value in volume.items() if name != "name" and value is not None]
        if _VOLUMES.isdisjoint(sources):
            bad.append(str(volume.get("name") or ""))
            kinds.add(sources[0] if sources else "unknown")
    if not bad:
        return None
    uses = "uses" if len(bad) == 1 else "use"
    what = _some("restricted volume type", "restricted volume types", sorted(kinds))
    return Violation("restricted volume types", f"{_some('volume', 'volumes', bad)} {uses} {what}")


def _non_root(pod: _Pod) -> Violation | None:
    whole = pod.context.get("runAsNonRoot")
    if setters := _setters(whole is False, _bad(pod, lambda context: context.get("runAsNonRoot") is False)):
        return Violation("runAsNonRoot != true", f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false")
    bad = [] if whole else _bad(pod, lambda context: context.get("runAsNonRoot") is None)
    who = _some("container", "containers", bad)
    return Violation("runAsNonRoot != true", f"pod or {who} must set securityContext.runAsNonRoot=true") if bad else None


def _is_root(context: JSONMapping) -> bool:
    user: Any = context.get("runAsUser")
    return user is not None and user == 0


def _non_root_user(pod: _Pod) -> Violation | None:
    setters = _setters(_is_root(pod.context), _bad(pod, _is_root))
    return Violation("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


# By upstream's ids, which are sorted by their bytes, as the order of the texts is.
_BASELINE: Mapping[str, _Versions] = {
    "appArmorProfile": {0: _app_armor},
    "capabilities_baseline": {0: _capabilities},
    "hostNamespaces": {0: _host_namespaces},
    "hostPathVolumes": {0: _host_paths},
    "hostPorts": {0: _host_ports},
    "hostProbesAndHostLifecycle": {34: _probe_hosts},
    "privileged": {0: _privileged},
    "procMount": {0: _proc_mount, 35: _unless_user_namespace(_proc_mount)},
    "seLinuxOptions": {0: partial(_selinux, _SELINUX), 31: partial(_selinux, _SELINUX | {"container_engine_t"})},
    "seccompProfile_baseline": {0: _seccomp_annotations, 19: partial(_seccomp, False)},
    "sysctls": {
        0: partial(_sysctls, _SYSCTLS),
        27: partial(_sysctls, _SYSCTLS_27),
        29: partial(_sysctls, _SYSCTLS_29),
        32: partial(_sysctls, _SYSCTLS_32),
    },
    "windowsHostProcess": {0: _host_process},
}
_RESTRICTED: Mapping[str, _Versions] = {
    "allowPrivilegeEscalation": {8: _escalation, 25: _unless_windows(_escalation)},
    "capabilities_restricted": {22: _few_capabilities, 25: _unless_windows(_few_capabilities)},
    "procMount_restricted": {35: _proc_mount},
    "restrictedVolumes": {0: _volumes},
    "runAsNonRoot": {0: _non_root, 35: _unless_user_namespace(_non_root)},
    "runAsUser": {23: _non_root_user, 35: _unless_user_namespace(_non_root_user)},
    "seccompProfile_restricted": {19: partial(_seccomp, True), 25: _unless_windows(partial(_seccomp, True))},
}
# Checks of the level restricted -> those of baseline for which they stand.
_OVERRIDDEN = {
    "capabilities_restricted": "capabilities_baseline",
    "procMount_restricted": "procMount",
    "restrictedVolumes": "hostPathVolumes",
    "seccompProfile_restricted": "seccompProfile_baseline",
}
