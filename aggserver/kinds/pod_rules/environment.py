"""Environment variables of containers, and what they and volumes read of a Pod: its fields and its resources.

Pure. Source: ValidateEnv and ValidateEnvFrom in k8s.io/kubernetes pkg/apis/core/validation/validation.go,
ConvertDownwardAPIFieldLabel in pkg/apis/core/pods/helpers.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from aggserver.kinds.pod_rules.texts import config_key, described, named, no_backsteps, not_found, variable_name
from aggserver.meta import quantity
from aggserver.meta.field import FieldError, Path, invalid, not_supported, required
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_label, dns1123_subdomain, qualified_name

__all__ = [
    "FIELDS_OF_FILES",
    "environment_problems",
    "field_problems",
    "file_volume_problems",
    "resource_field_problems",
    "source_problems",
]

_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
FIELDS_OF_FILES = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
"""The fields of a Pod that a file may have."""
_KNOWN = frozenset({*_FIELDS, *FIELDS_OF_FILES, "spec.restartPolicy", "spec.schedulerName", "status.phase"})
_SUBSCRIPTED = ("metadata.annotations", "metadata.labels")
_MEMORY, _STORAGE = ("limits.memory", "requests.memory"), ("limits.ephemeral-storage", "requests.ephemeral-storage")
_PROCESSORS = ("limits.cpu", "requests.cpu")
_RESOURCES = ("limits.cpu", *_STORAGE[:1], *_MEMORY[:1], "requests.cpu", *_STORAGE[1:], *_MEMORY[1:])
_HUGE = ("limits.hugepages-", "requests.hugepages-")
_UNITS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_SOURCES = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_TOO_MANY = "may not have more than one field specified at a time"


def environment_problems(variables: Sequence[JSONMapping], path: Path) -> Iterator[FieldError]:
    for index, variable in enumerate(variables):
        where, name = path.index(index), variable.get("name") or ""
        if not name:
            yield required(where.child("name"))
        else:
            yield from described(where.child("name"), name, variable_name(name))
        if (source := variable.get("valueFrom")) is not None:
            yield from _source(source, variable.get("value") or "", where.child("valueFrom"))


def _source(source: JSONMapping, value: str, path: Path) -> Iterator[FieldError]:
    count = 0
    if (field := source.get("fieldRef")) is not None:
        count += 1
        yield from field_problems(field, _FIELDS, path.child("fieldRef"))
    if (resource := source.get("resourceFieldRef")) is not None:
        count += 1
        yield from resource_field_problems(resource, path.child("resourceFieldRef"), in_file=False)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if (reference := source.get(name)) is not None:
            count += 1
            yield from _key(reference, path.child(name))
    if (file := source.get("fileKeyRef")) is not None:
        count += 1
        yield from _file(file, path.child("fileKeyRef"))
    if not count:
        yield invalid(path, "", _SOURCES)
    elif value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif count > 1:
        yield invalid(path, "", _TOO_MANY)


def _key(reference: JSONMapping, path: Path) -> Iterator[FieldError]:
    yield from named(path.child("name"), reference.get("name") or "", dns1123_subdomain)
    key = reference.get("key") or ""
    if not key:
        yield required(path.child("key"))
    else:
        yield from described(path.child("key"), key, config_key(key))


def _file(file: JSONMapping, path: Path) -> Iterator[FieldError]:
    """The errors of a key in a file of a volume."""
    key, volume, text = (file.get(name) or "" for name in ("key", "volumeName", "path"))
    if not key:
        yield required(path.child("key"))
    else:
        yield from described(path.child("key"), key, variable_name(key))
    if not volume:
        yield required(path.child("volumeName"))
    else:
        yield from named(path.child("volumeName"), volume, dns1123_label)
    if not text:
        yield required(path.child("path"))
    else:
        yield from no_backsteps(text, path.child("path"))


def file_volume_problems(containers: Sequence[tuple[JSONMapping, Path]], volumes: Sequence[JSONMapping]) -> Iterator[FieldError]:
    """The errors of volumes with such files, which must be of the type emptyDir. containers: with their paths."""
    known = {volume.get("name") or "": volume for volume in volumes}
    for container, path in containers:
        for index, variable in enumerate(container.get("env") or ()):
            file = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if file is None:
                continue
            name = file.get("volumeName") or ""
            where = path.child("env").index(index).child("valueFrom").child("fileKeyRef").child("volumeName")
            if name not in known:
                yield not_found(where, name)
            elif known[name].get("emptyDir") is None:
                yield invalid(where, name, "referenced volume must be of type emptyDir")


def source_problems(sources: Sequence[JSONMapping], path: Path) -> Iterator[FieldError]:
    """The errors of envFrom. As upstream, those of the number of sources have no index."""
    for index, source in enumerate(sources):
        where = path.index(index)
        if prefix := source.get("prefix"):
            yield from described(where.child("prefix"), prefix, variable_name(prefix))
        count = 0
        for member in ("configMapRef", "secretRef"):
            if (reference := source.get(member)) is not None:
                count += 1
                name, at = reference.get("name") or "", where.child(member).child("name")
                if not name:
                    yield required(at)
                else:
                    yield from described(at, name, dns1123_subdomain(name, True))
        if not count:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif count > 1:
            yield invalid(path, "", _TOO_MANY)


def field_problems(reference: JSONMapping, fields: Collection[str], path: Path) -> Iterator[FieldError]:
    """The errors of a reference to a field of the Pod. fields: those that may be named."""
    version, name = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version:
        yield required(path.child("apiVersion"))
        return
    if not name:
        yield required(path.child("fieldPath"))
        return
    base, subscript = _split(name)
    why = ""
    if version != "v1":
        why = f"unsupported pod version: {version}"
    elif subscript is not None and base not in _SUBSCRIPTED:
        why = f"field label does not support subscript: {name}"
    elif subscript is None and name != "spec.host" and name not in _KNOWN:
        why = f"field label not supported: {name}"
    if why:
        yield invalid(path.child("fieldPath"), name, f"error converting fieldPath: {why}")
    elif subscript is not None:
        key = subscript.lower() if base == "metadata.annotations" else subscript
        yield from named(path, key, _qualified)
    elif (shown := "spec.nodeName" if name == "spec.host" else name) not in fields:
        yield not_supported(path.child("fieldPath"), shown, sorted(fields))


def _qualified(name: str, prefix: bool = False) -> list[str]:
    return qualified_name(name)


def _split(name: str) -> tuple[str, str | None]:
    """`metadata.labels['a']` as the path and the subscript; None without one."""
    if not name.endswith("']") or "['" not in name:
        return name, None
    base, _, rest = name.partition("['")
    return (base, rest.removesuffix("']")) if base else (name, None)


def resource_field_problems(reference: JSONMapping, path: Path, *, in_file: bool) -> Iterator[FieldError]:
    """The errors of a reference to a container's resource. in_file: whether it must name the container."""
    name = reference.get("resource") or ""
    if in_file and not reference.get("containerName"):
        yield required(path.child("containerName"))
    elif not name:
        yield required(path.child("resource"))
    elif name not in _RESOURCES and not name.startswith(_HUGE):
        yield not_supported(path.child("resource"), name, _RESOURCES)
    divisor = str(reference.get("divisor") or "0")
    if not quantity.parse(divisor).sign():
        return
    shown = quantity.canonical(divisor)
    text = f"only divisor's values {', '.join(_UNITS)} are supported with the"
    if name in _PROCESSORS and shown not in ("1m", "1"):
        yield invalid(path.child("divisor"), name, "only divisor's values 1m and 1 are supported with the cpu resource")
    elif name in _MEMORY and shown not in _UNITS:
        yield invalid(path.child("divisor"), name, f"{text} memory resource")
    elif name in _STORAGE and shown not in _UNITS:
        yield invalid(path.child("divisor"), name, f"{text} local ephemeral storage resource")
    elif name.startswith(_HUGE) and shown not in _UNITS:
        yield invalid(path.child("divisor"), name, f"{text} hugepages resource")
