"""Security contexts of containers and Pods, and what goes with the operating system and the user namespace of a Pod.

Pure. Source: ValidateSecurityContext, validatePodSpecSecurityContext, validateWindowsHostProcessPod, validateHostUsers,
validateLinux and validateWindows in k8s.io/kubernetes pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from aggserver.kinds.pod_rules.texts import described, named, relative_path
from aggserver.meta.field import FieldError, Path, RawJSON, duplicate, forbidden, invalid, not_supported, required, too_long
from aggserver.meta.golang import to_json
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_subdomain

__all__ = [
    "Container",
    "annotation_match_problems",
    "container_context_problems",
    "host_process_problems",
    "host_user_problems",
    "os_problems",
    "pod_context_problems",
]

Container = tuple[JSONMapping, Path]
"""A container and its path."""

_MAX_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS = ("Default", "Unmasked")
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"({_SEGMENT}[\./])*{_SEGMENT}"
_is_sysctl = re.compile(r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?(?:[./][a-z0-9](?:[-_a-z0-9]*[a-z0-9])?)*").fullmatch
_MAX_SYSCTL, _MAX_PROFILE = 253, 4095
_IPC_SYSCTLS = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg")
)
_MAX_SPEC, _MAX_DOMAIN, _MAX_USER = 64 * 1024, 256, 104
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_is_net_bios = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}').fullmatch
_is_windows_domain = re.compile(
    r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*"
).fullmatch
_NO_USER = re.compile(r'["/\\:;|=,+*?<>@\[\]]')


def container_context_problems(context: JSONMapping | None, path: Path, *, host_users: bool) -> Iterator[FieldError]:
    """host_users: whether the Pod has the users of its node."""
    if context is None:
        return
    for name in ("runAsUser", "runAsGroup"):
        yield from _id(context.get(name), path.child(name))
    mount = context.get("procMount")
    if mount is not None:
        if mount not in _PROC_MOUNTS:
            yield not_supported(path.child("procMount"), mount, _PROC_MOUNTS)
        if host_users and mount == "Unmasked":
            yield invalid(path.child("procMount"), mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _seccomp(context.get("seccompProfile"), path.child("seccompProfile"))
    if context.get("allowPrivilegeEscalation") is False:
        text = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            yield invalid(path, RawJSON(_as_go(context)), f"{text} `privileged` to true")
        for added in (context.get("capabilities") or {}).get("add") or ():
            if added == "CAP_SYS_ADMIN":
                yield invalid(path, RawJSON(_as_go(context)), f"{text} `capabilities.Add` CAP_SYS_ADMIN")
    yield from _windows(context.get("windowsOptions"), path.child("windowsOptions"))
    yield from _app_armor(context.get("appArmorProfile"), path.child("appArmorProfile"))


def _as_go(context: JSONMapping) -> str:
    """A context as in upstream's errors: as JSON of Go's internal type, whose members have Go's names."""
    given = context.get("capabilities")
    capabilities = "null"
    if given is not None:
        capabilities = f'{{"Add":{to_json(given.get("add") or None)},"Drop":{to_json(given.get("drop") or None)}}}'
    shown = (f'"{_GO_NAMES.get(name, name[0].upper() + name[1:])}":{_go_value(name, context.get(name))}' for name in _GO_ORDER)
    members = ",".join((f'"Capabilities":{capabilities}', *shown))
    return f"{{{members}}}"


_GO_ORDER = (
    "privileged",
    "seLinuxOptions",
    "windowsOptions",
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "readOnlyRootFilesystem",
    "allowPrivilegeEscalation",
    "procMount",
    "seccompProfile",
    "appArmorProfile",
)
_GO_NAMES = {"seLinuxOptions": "SELinuxOptions"}
_GO_MEMBERS = {
    "appArmorProfile": ("type", "localhostProfile"),
    "seLinuxOptions": ("user", "role", "type", "level"),
    "seccompProfile": ("type", "localhostProfile"),
}


def _go_value(name: str, value: object) -> str:
    if not isinstance(value, Mapping) or name not in _GO_MEMBERS:
        return to_json(value)
    missing = "" if name == "seLinuxOptions" else None
    members = (f'"{each[0].upper()}{each[1:]}":{to_json(value.get(each, missing))}' for each in _GO_MEMBERS[name])
    return f"{{{','.join(members)}}}"


def _id(number: int | None, path: Path) -> Iterator[FieldError]:
    """The errors of the id of a user or a group."""
    if number is not None and not 0 <= number <= _MAX_ID:
        yield invalid(path, number, f"must be between 0 and {_MAX_ID}, inclusive")


def _seccomp(profile: JSONMapping | None, path: Path) -> Iterator[FieldError]:
    if profile is None:
        return
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if not kind:
        yield required(path.child("type"), "type is required when seccompProfile is set")
    elif kind not in _PROFILES:
        yield not_supported(path.child("type"), kind, _PROFILES)
    where = path.child("localhostProfile")
    if kind != "Localhost":
        if local is not None:
            shown = RawJSON(f'{{"Type":{to_json(kind)},"LocalhostProfile":{to_json(local)}}}')
            yield invalid(where, shown, "can only be set when seccomp type is Localhost")
    elif local is None:
        yield required(where, "must be set when seccomp type is Localhost")
    else:
        yield from relative_path(local, where)


def _app_armor(profile: JSONMapping | None, path: Path) -> Iterator[FieldError]:
    if profile is None:
        return
    kind, local, where = profile.get("type") or "", profile.get("localhostProfile"), path.child("localhostProfile")
    if kind == "Localhost":
        if local is None or not local:
            yield required(where, "must be set when AppArmor type is Localhost")
        elif local.strip() != local:
            yield invalid(where, local, "must not be padded with whitespace")
        if local is not None and len(local.encode()) > _MAX_PROFILE:
            yield too_long(where, _MAX_PROFILE)
    elif kind in _PROFILES:
        if local is not None:
            yield invalid(where, local, "can only be set when AppArmor type is Localhost")
    elif not kind:
        yield required(path.child("type"), "type is required when appArmorProfile is set")
    else:
        yield not_supported(path.child("type"), kind, _PROFILES)


def _windows(options: JSONMapping | None, path: Path) -> Iterator[FieldError]:
    if options is None:
        return
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        yield from named(path.child("gmsaCredentialSpecName"), name, dns1123_subdomain)
    if (spec := options.get("gmsaCredentialSpec")) is not None:
        where = path.child("gmsaCredentialSpec")
        if not spec:
            yield invalid(where, spec, "gmsaCredentialSpec cannot be an empty string")
        elif len(spec.encode()) > _MAX_SPEC:
            yield invalid(where, spec, "gmsaCredentialSpec size must be under 64 KiB")
    if (user := options.get("runAsUserName")) is not None:
        yield from described(path.child("runAsUserName"), user, _windows_user(user))


def _windows_user(name: str) -> Iterator[str]:
    if not name:
        yield "runAsUserName cannot be an empty string"
        return
    if _CONTROL.search(name):
        yield "runAsUserName cannot contain control characters"
        return
    if name.count("\\") > 1:
        yield "runAsUserName cannot contain more than one backslash"
        return
    domain, slash, user = name.rpartition("\\")
    if len(domain.encode()) >= _MAX_DOMAIN:
        yield f"runAsUserName's Domain length must be under {_MAX_DOMAIN} characters"
    if slash and not (_is_net_bios(domain) or _is_windows_domain(domain)):
        yield "runAsUserName's Domain doesn't match the NetBios nor the DNS format"
    if not user:
        yield "runAsUserName's User cannot be empty"
    elif len(user.encode()) > _MAX_USER:
        yield f"runAsUserName's User length must not be longer than {_MAX_USER} characters"
    if user and not user.strip(". "):
        yield "runAsUserName's User cannot contain only periods or spaces"
    if _NO_USER.search(user):
        yield "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


def pod_context_problems(spec: JSONMapping, path: Path) -> Iterator[FieldError]:
    """The errors of the Pod's security context. path: of the spec."""
    context, where = spec.get("securityContext"), path.child("securityContext")
    if context is None:
        return
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from _id(context.get(name), where.child(name))
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _id(group, where.child("supplementalGroups").index(index))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(where.child("shareProcessNamespace"), True, text)
    yield from _sysctls(context.get("sysctls") or (), spec, where.child("sysctls"))
    yield from _chosen(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), where)
    yield from _seccomp(context.get("seccompProfile"), where.child("seccompProfile"))
    yield from _windows(context.get("windowsOptions"), where.child("windowsOptions"))
    yield from _app_armor(context.get("appArmorProfile"), where.child("appArmorProfile"))
    yield from _chosen(context, "supplementalGroupsPolicy", ("Merge", "Strict"), where)
    yield from _chosen(context, "seLinuxChangePolicy", ("Recursive",), where)  # others need a feature that is off by default


def _chosen(context: JSONMapping, name: str, values: tuple[str, ...], path: Path) -> Iterator[FieldError]:
    value = context.get(name)
    if value is not None and value not in values:
        yield not_supported(path.child(name), value, values)


def _sysctls(sysctls: Sequence[JSONMapping], spec: JSONMapping, path: Path) -> Iterator[FieldError]:
    taken = set[str]()
    for index, sysctl in enumerate(sysctls):
        name, where = sysctl.get("name") or "", path.index(index).child("name")
        if not name:
            yield required(where)
        elif len(name.encode()) > _MAX_SYSCTL or not _is_sysctl(name):
            yield invalid(where, name, f"must have at most {_MAX_SYSCTL} characters and match regex ^{_SYSCTL}$")
        elif name in taken:
            yield duplicate(where, name)
        dotted = _dotted(name)
        if spec.get("hostNetwork") and dotted.startswith("net."):
            yield invalid(where, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith("fs.mqueue.")):
            yield invalid(where, name, "may not be specified when 'hostIPC' is true")
        taken.add(name)


def _dotted(name: str) -> str:
    """With dots between segments: the first separator says which of `.` and `/` separates."""
    slash, dot = name.find("/"), name.find(".")
    if slash < 0 or (0 <= dot < slash):
        return name
    return name.translate(str.maketrans("./", "/."))


def host_process_problems(spec: JSONMapping, containers: Sequence[Container], path: Path) -> Iterator[FieldError]:
    """The errors of Windows' containers that are processes of the host. containers: of all kinds."""
    of_pod = ((spec.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
    count = 0
    for container, where in containers:
        own = ((container.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
        if None not in (of_pod, own) and of_pod != own:
            text = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            yield invalid(where.child("securityContext", "windowsOptions", "hostProcess"), own, text)
        count += bool(of_pod if own is None else own)
    if not count:
        return
    if count != len(containers):
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        yield invalid(path, "", text)
    if not spec.get("hostNetwork"):
        yield invalid(path.child("hostNetwork"), False, "hostNetwork must be true if pod contains any hostProcess containers")


def host_user_problems(spec: JSONMapping, containers: Sequence[Container], path: Path) -> Iterator[FieldError]:
    """What goes with no user namespace of its own. As upstream, two names have a capital letter."""
    if spec.get("hostUsers") is not False:
        return
    for name, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(name):
            yield forbidden(path.child(shown), "when `hostUsers` is false")
    for container, where in containers:
        if container.get("volumeDevices"):
            yield forbidden(where.child("volumeDevices"), "when `hostUsers` is false")


_WINDOWS_ONLY = "windows options cannot be set for a linux pod"
_LINUX_ONLY = "cannot be set for a windows pod"
# Members of the Pod's security context, and of the spec, that are not for Windows, in upstream's order.
_OF_LINUX_PODS = (
    ("securityContext", "appArmorProfile"),
    ("securityContext", "seLinuxOptions"),
    ("", "hostUsers"),
    ("", "hostPID"),
    ("", "hostIPC"),
    ("securityContext", "seccompProfile"),
    ("securityContext", "fsGroup"),
    ("securityContext", "fsGroupChangePolicy"),
    ("securityContext", "sysctls"),
    ("", "shareProcessNamespace"),
    ("securityContext", "runAsUser"),
    ("securityContext", "runAsGroup"),
    ("securityContext", "supplementalGroups"),
    ("securityContext", "supplementalGroupsPolicy"),
    ("securityContext", "seLinuxChangePolicy"),
)
_OF_LINUX_CONTAINERS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def os_problems(spec: JSONMapping, containers: Sequence[Container], path: Path) -> Iterator[FieldError]:
    system = spec.get("os")
    if system is None:
        return
    name, context = system.get("name") or "", spec.get("securityContext") or {}
    if not name:
        yield required(path.child("os").child("name"))
    elif name not in ("linux", "windows"):
        yield not_supported(path.child("os"), name, ("linux", "windows"))
    elif name == "linux":
        if context.get("windowsOptions") is not None:
            yield forbidden(path.child("securityContext").child("windowsOptions"), _WINDOWS_ONLY)
        for container, where in containers:
            if (container.get("securityContext") or {}).get("windowsOptions") is not None:
                yield forbidden(where.child("securityContext").child("windowsOptions"), _WINDOWS_ONLY)
    else:
        yield from _of_windows(spec, context, containers, path)


def _of_windows(spec: JSONMapping, context: JSONMapping, containers: Sequence[Container], path: Path) -> Iterator[FieldError]:
    for holder, name in _OF_LINUX_PODS:
        value = (context if holder else spec).get(name)
        if value is None or (name in ("hostPID", "hostIPC") and not value) or (name == "sysctls" and not value):
            continue
        yield forbidden(path.child(holder, name) if holder else path.child(name), _LINUX_ONLY)
    for container, where in containers:
        own = container.get("securityContext") or {}
        for name in _OF_LINUX_CONTAINERS:
            if own.get(name) is not None:
                yield forbidden(where.child("securityContext").child(name), _LINUX_ONLY)


# --- annotations that say the same ---

_SECCOMP_POD, _SECCOMP = "seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def annotation_match_problems(
    annotations: Mapping[str, str], spec: JSONMapping, containers: Sequence[Container], path: Path
) -> Iterator[FieldError]:
    """The errors of profiles in annotations that are others than those in security contexts."""
    if not any("security." in name for name in annotations):
        return
    context = spec.get("securityContext") or {}
    yield from _seccomp_match(annotations.get(_SECCOMP_POD), context.get("seccompProfile"), path.child("securityContext"))
    for container, where in containers:
        own = (container.get("securityContext") or {}).get("seccompProfile")
        name = container.get("name") or ""
        yield from _seccomp_match(annotations.get(_SECCOMP + name), own, where.child("securityContext"))
    if (spec.get("os") or {}).get("name") == "windows":
        return
    for container, where in containers:
        profile = (container.get("securityContext") or {}).get("appArmorProfile") or context.get("appArmorProfile")
        given = annotations.get(_APP_ARMOR + (container.get("name") or ""))
        if profile is not None and given is not None:
            yield from _app_armor_match(given, profile, where.child("securityContext").child("appArmorProfile"))


def _seccomp_match(given: str | None, profile: JSONMapping | None, path: Path) -> Iterator[FieldError]:
    if given is None or profile is None:
        return
    kind, where = profile.get("type"), path.child("seccompProfile")
    right = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default", "docker/default")}.get(kind or "")
    is_right = given in right if right is not None else kind != "Localhost" or given.startswith("localhost/")
    if not is_right:
        yield forbidden(where.child("type"), "seccomp type in annotation and field must match")
    elif kind == "Localhost" and given.removeprefix("localhost/") != profile.get("localhostProfile"):
        yield forbidden(where.child("localhostProfile"), "seccomp profile in annotation and field must match")


def _app_armor_match(given: str, profile: JSONMapping, path: Path) -> Iterator[FieldError]:
    kind = profile.get("type")
    right = {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}.get(kind or "")
    is_right = given == right if right is not None else kind != "Localhost" or given.startswith("localhost/")
    if not is_right:
        yield forbidden(path.child("type"), "apparmor type in annotation and field must match")
    elif kind == "Localhost" and given.removeprefix("localhost/") != (profile.get("localhostProfile") or ""):
        yield forbidden(path.child("localhostProfile"), "apparmor profile in annotation and field must match")
