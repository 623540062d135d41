"""The rules of an Ingress: hosts, paths and backends.

Pure. Source: ValidateIngressCreate and ValidateIngressSpec in k8s.io/kubernetes pkg/apis/networking/validation/validation.go,
v1.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from aggserver.kinds.pod_rules.ratchet import not_known
from aggserver.kinds.pod_rules.texts import address_problems, described, named, port_problems
from aggserver.meta.field import FieldError, Path, invalid, not_supported, required
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_label, dns1123_subdomain, path_segment_name
from aggserver.scheme.validation import Rule

__all__ = ["rules_of_ingress"]

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_IN_PATHS, _NOT_AT_ENDS = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")
_CLASS = "kubernetes.io/ingress.class"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_WILDCARD = rf"\*\.{_LABEL}(\.{_LABEL})*"
_is_wildcard = re.compile(r"\*\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*").fullmatch
_MAX_HOST = 253


def rules_of_ingress(obj: JSONMapping, old: JSONMapping | None) -> Mapping[str, Rule]:
    """The rules for `scheme.validation.validate`. old: the object before an update."""
    is_new = old is None
    return {"networking/v1.Ingress": lambda whole, path: not_known(lambda each: _problems(each, is_new=is_new), obj, old)}


def _problems(ingress: JSONMapping, *, is_new: bool) -> Iterator[FieldError]:
    spec, path = ingress["spec"], Path("spec")
    rules, default = spec.get("rules") or (), spec.get("defaultBackend")
    if not rules and default is None:
        yield invalid(path, None, "either `defaultBackend` or `rules` must be specified")
    if default is not None:
        yield from _backend(default, path.child("defaultBackend"))
    for index, rule in enumerate(rules):
        yield from _rule(rule, path.child("rules").index(index))
    for index, part in enumerate(spec.get("tls") or ()):
        where = path.child("tls").index(index)
        for place, host in enumerate(part.get("hosts") or ()):
            yield from _host(host, where.child("hosts").index(place))
        if secret := part.get("secretName"):
            yield from named(where.child("secretName"), secret, dns1123_subdomain)
    name = spec.get("ingressClassName")
    if name is not None:
        yield from named(path.child("ingressClassName"), name, dns1123_subdomain)
    given = (ingress["metadata"].get("annotations") or {}).get(_CLASS)
    if is_new and None not in (given, name) and given != name:
        where = Path("annotations").child(_CLASS)
        yield invalid(where, given, "must match `ingressClassName` when both are specified")


def _rule(rule: JSONMapping, path: Path) -> Iterator[FieldError]:
    if host := rule.get("host"):
        if _is_address(host):
            yield invalid(path.child("host"), host, "must be a DNS name, not an IP address")
        yield from _host(host, path.child("host"))
    if (http := rule.get("http")) is None:
        return
    where = path.child("http").child("paths")
    if not http.get("paths"):
        yield required(where)
    for index, each in enumerate(http.get("paths") or ()):
        yield from _path(each, where.index(index))


def _is_address(host: str) -> bool:
    return all(problem.detail != _NO_ADDRESS for problem in address_problems(host, Path()))


_NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def _host(host: str, path: Path) -> Iterator[FieldError]:
    return described(path, host, _wildcard(host) if "*" in host else dns1123_subdomain(host))


def _wildcard(host: str) -> Iterator[str]:
    if len(host.encode()) > _MAX_HOST:
        yield f"must be no more than {_MAX_HOST} characters"
    if not _is_wildcard(host):
        what = (
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower "
            "case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
        )
        yield f"{what} (e.g. '*.example.com', regex used for validation is '{_WILDCARD}')"


def _path(rule: JSONMapping, path: Path) -> Iterator[FieldError]:
    kind, text, where = rule.get("pathType"), rule.get("path") or "", path.child("path")
    if kind is None:
        yield required(path.child("pathType"), "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield not_supported(path.child("pathType"), kind, _PATH_TYPES)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(where, text, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        yield from (invalid(where, text, f"must not contain '{part}'") for part in _NOT_IN_PATHS if part in text)
        yield from (invalid(where, text, f"cannot end with '{end}'") for end in _NOT_AT_ENDS if text.endswith(end))
    yield from _backend(rule.get("backend") or {}, path.child("backend"))


def _backend(backend: JSONMapping, path: Path) -> Iterator[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _resource(resource, path.child("resource"))
    elif service is not None:
        yield from _service(service, path)
    else:
        yield invalid(path, "", "resource or service backend is required")


def _resource(resource: JSONMapping, path: Path) -> Iterator[FieldError]:
    if (group := resource.get("apiGroup")) is not None:
        yield from named(path.child("apiGroup"), group, dns1123_subdomain)
    for member in ("kind", "name"):
        if not (name := resource.get(member)):
            yield required(path.child(member))
        else:
            yield from named(path.child(member), name, path_segment_name)


def _service(service: JSONMapping, path: Path) -> Iterator[FieldError]:
    name, port = service.get("name"), service.get("port") or {}
    if not name:
        yield required(path.child("service", "name"))
    else:
        yield from named(path.child("service", "name"), name, dns1123_label)
    if port.get("name") and port.get("number"):
        yield invalid(path, "", "cannot set both port name & port number")
    elif port.get("name"):
        yield from port_problems(port["name"], path.child("service", "port", "name"))
    elif port.get("number"):
        yield from port_problems(port["number"], path.child("service", "port", "number"))
    else:
        yield required(path, "port name or number is required")
