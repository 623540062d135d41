"""The audit policy: at which level a request is recorded, at which stages, and with which parts of objects.

The first rule that matches a request decides; a request that no rule matches is not recorded. A file is read once, at the start.
A field that the kind does not have is only warned of, as upstream; everything else that is wrong refuses the file.
Pure. Source: k8s.io/apiserver pkg/audit/policy/{reader,checker}.go, pkg/apis/audit/validation/validation.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aggserver.authorization.attributes import Attributes
from aggserver.meta import codec, field, golang
from aggserver.meta.field import FieldError, Path
from aggserver.meta.names import dns1123_subdomain

__all__ = [
    "LEVELS",
    "METADATA",
    "NONE",
    "REQUEST",
    "REQUEST_RESPONSE",
    "STAGES",
    "AuditConfig",
    "AuditPolicy",
    "AuditPolicyError",
]

# Levels are compared, so they are numbers here: positions in this list.
LEVELS = ("None", "Metadata", "Request", "RequestResponse")
NONE, METADATA, REQUEST, REQUEST_RESPONSE = range(4)
STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")

_API_VERSION, _KIND = "audit.k8s.io/v1", "Policy"

_Errors = Iterator[FieldError]


class AuditPolicyError(ValueError):
    """The policy can't be used. The text is upstream's."""


class AuditConfig(NamedTuple):
    """How a request is recorded. omitted: the stages of which there is no event."""

    level: int
    omitted: frozenset[str] = frozenset()
    without_managed_fields: bool = False


# A rule's test of the attributes of a request.
_Test = Callable[[Attributes], bool]


class AuditPolicy:
    """The rules in their order. warnings: of fields that the file has and the kind has not."""

    def __init__(self, rules: Sequence[tuple[_Test, AuditConfig]], otherwise: AuditConfig, warnings: Sequence[str] = ()) -> None:
        self._rules = tuple(rules)
        self._otherwise = otherwise
        self.warnings = tuple(warnings)

    @classmethod
    def read(cls, content: bytes) -> AuditPolicy:
        """The policy in a file, which is YAML or JSON. Raises AuditPolicyError."""
        try:
            policy, warnings = codec.decode_yaml_checking_keys(content)
        except codec.DecodeError as error:
            raise AuditPolicyError(f"failed decoding: couldn't get version/kind; json parse error: {error}") from None
        _check_kind(policy, content)
        warnings = [*warnings, *_typed(policy, _POLICY, "Policy", "", "")]
        if found := [str(error) for error in _invalid(policy)]:
            raise AuditPolicyError(found[0] if len(found) == 1 else f"[{', '.join(dict.fromkeys(found))}]")
        if not policy.get("rules"):
            raise AuditPolicyError("loaded illegal policy with 0 rules")
        everywhere = frozenset(policy.get("omitStages") or ())
        bare = bool(policy.get("omitManagedFields"))
        rules = [(_test(rule), _verdict(rule, everywhere, bare=bare)) for rule in policy["rules"]]
        return cls(rules, AuditConfig(NONE, everywhere, bare), warnings)

    def of(self, attributes: Attributes) -> AuditConfig:
        """How a request with these attributes is recorded. The user is the one who asks, not the one who is impersonated."""
        for matches, verdict in self._rules:
            if matches(attributes):
                return verdict
        return self._otherwise


def _verdict(rule: Mapping[str, Any], everywhere: frozenset[str], *, bare: bool) -> AuditConfig:
    own = rule.get("omitManagedFields")
    return AuditConfig(LEVELS.index(rule["level"]), everywhere.union(rule.get("omitStages") or ()), bare if own is None else own)


def _test(rule: Mapping[str, Any]) -> _Test:
    """The conditions that the rule has, of which all must hold."""
    tests: list[_Test] = []
    users, groups, verbs = (frozenset(rule.get(name) or ()) for name in ("users", "userGroups", "verbs"))
    if users:
        tests.append(lambda attributes: attributes.user.name in users)
    if groups:
        tests.append(lambda attributes: not groups.isdisjoint(attributes.user.groups))
    if verbs:
        tests.append(lambda attributes: attributes.verb in verbs)
    namespaces, resources = frozenset(rule.get("namespaces") or ()), rule.get("resources") or ()
    if namespaces or resources:
        tests.append(lambda attributes: attributes.on_resource)
        if namespaces:
            tests.append(lambda attributes: attributes.namespace in namespaces)
        if resources:
            tests.append(_any_of([_of_group(entry) for entry in resources]))
    elif urls := rule.get("nonResourceURLs") or ():
        tests.append(_of_paths(urls))
    return tests[0] if len(tests) == 1 else _all_of(tests)


def _all_of(tests: Sequence[_Test]) -> _Test:
    return lambda attributes: all(test(attributes) for test in tests)


def _any_of(tests: Sequence[_Test]) -> _Test:
    return lambda attributes: any(test(attributes) for test in tests)


def _of_group(entry: Mapping[str, Any]) -> _Test:
    group, names = entry.get("group") or "", frozenset(entry.get("resourceNames") or ())
    resources = entry.get("resources") or ()
    exact = frozenset(resources)
    # `pods/*` is also pods itself, as upstream.
    below = frozenset(text.removesuffix("/*") for text in resources if text.endswith("/*"))
    anywhere = frozenset(text.removeprefix("*/") for text in resources if text.startswith("*/"))

    def matches(attributes: Attributes) -> bool:
        if group not in ("*", attributes.group):
            return False
        if not resources:
            return True
        if names and attributes.name not in names:
            return False
        resource, subresource = attributes.resource, attributes.subresource
        return (
            "*" in exact
            or (f"{resource}/{subresource}" if subresource else resource) in exact
            or (bool(subresource) and subresource in anywhere)
            or resource in below
        )

    return matches


def _of_paths(urls: Sequence[str]) -> _Test:
    exact = frozenset(urls)
    starts = tuple(url.rstrip("*") for url in urls if url.endswith("*"))

    def matches(attributes: Attributes) -> bool:
        return not attributes.on_resource and (attributes.path in exact or attributes.path.startswith(starts))

    return matches


def _check_kind(policy: Any, content: bytes) -> None:
    if not isinstance(policy, dict):
        why = f"json: cannot unmarshal {golang.json_kind(policy)} into Go value of type struct"
        raise AuditPolicyError(f"failed decoding: couldn't get version/kind; json parse error: {why}")
    kind, version = policy.get("kind") or "", policy.get("apiVersion") or ""
    for name, value in (("Kind", kind), ("apiVersion", version)):
        if not value:
            raise AuditPolicyError(f"failed decoding: Object '{name}' is missing in '{content.decode('utf-8', 'replace')}'")
    if (version, kind) != (_API_VERSION, _KIND):
        raise AuditPolicyError(
            f"failed decoding: no kind {golang.quote(str(kind))} is registered for version {golang.quote(str(version))}"
        )


class _List(NamedTuple):
    """A list; of structs with these fields, or of values of the Go type."""

    go: str
    fields: Mapping[str, Any] | None = None
    struct: str = ""


_STRINGS = _List("[]string")
_STAGE_LIST = _List("[]v1.Stage")
_GROUP_RESOURCES = {"group": "string", "resources": _STRINGS, "resourceNames": _STRINGS}
_RULE = {
    "level": "v1.Level",
    "users": _STRINGS,
    "userGroups": _STRINGS,
    "verbs": _STRINGS,
    "resources": _List("[]v1.GroupResources", _GROUP_RESOURCES, "GroupResources"),
    "namespaces": _STRINGS,
    "nonResourceURLs": _STRINGS,
    "omitStages": _STAGE_LIST,
    "omitManagedFields": "bool",
}
_POLICY = {
    "kind": "string",
    "apiVersion": "string",
    "metadata": "v1.ObjectMeta",
    "rules": _List("[]v1.PolicyRule", _RULE, "PolicyRule"),
    "omitStages": _STAGE_LIST,
    "omitManagedFields": "bool",
}


def _typed(value: Mapping[str, Any], fields: Mapping[str, Any], struct: str, go_path: str, path: str) -> Iterator[str]:
    """A strict decoder's complaints about unknown fields. Raises AuditPolicyError for a value of a wrong type.

    go_path: names of the fields down to this struct, as Go tells them. path: the same with indexes.
    """
    for name, member in value.items():
        of = fields.get(name)
        if of is None:
            yield f'unknown field "{path}{name}"'
            continue
        where = f"{struct}.{go_path}{name}"
        if not isinstance(of, _List):
            wanted: type = {"bool": bool, "v1.ObjectMeta": dict}.get(of, str)
            if member is not None and not isinstance(member, wanted):
                raise _mismatch(member, where, of)
            continue
        if member is None:
            continue
        if not isinstance(member, list):
            raise _mismatch(member, where, of.go)
        for index, item in enumerate(member):
            if of.fields is None:
                if not isinstance(item, str):
                    raise _mismatch(item, where, of.go.removeprefix("[]"))
            elif not isinstance(item, dict):
                raise _mismatch(item, where, of.go.removeprefix("[]"))
            else:
                yield from _typed(item, of.fields, of.struct, f"{go_path}{name}.", f"{path}{name}[{index}].")


def _mismatch(value: Any, where: str, go: str) -> AuditPolicyError:
    return AuditPolicyError(
        f"failed decoding: json: cannot unmarshal {golang.json_kind(value)} into Go struct field {where} of type {go}"
    )


def _invalid(policy: Mapping[str, Any]) -> _Errors:
    yield from _invalid_stages(policy.get("omitStages") or (), Path("omitStages"))
    for index, rule in enumerate(policy.get("rules") or ()):
        yield from _invalid_rule(rule, Path("rules").index(index))


def _invalid_rule(rule: Mapping[str, Any], path: Path) -> _Errors:
    level = rule.get("level") or ""
    if not level:
        yield field.required(path.child("level"))
    elif level not in LEVELS:
        yield field.not_supported(path.child("level"), level, LEVELS)
    urls = rule.get("nonResourceURLs") or ()
    yield from _invalid_urls(urls, path.child("nonResourceURLs"))
    yield from _invalid_resources(rule.get("resources") or (), path.child("resources"))
    yield from _invalid_stages(rule.get("omitStages") or (), path.child("omitStages"))
    if urls and (rule.get("resources") or rule.get("namespaces")):
        why = "rules cannot apply to both regular resources and non-resource URLs"
        yield field.invalid(path.child("nonResourceURLs"), urls, why)


def _invalid_urls(urls: Sequence[str], path: Path) -> _Errors:
    for index, url in enumerate(urls):
        if url == "*":
            continue
        if not url.startswith("/"):
            yield field.invalid(path.index(index), url, "non-resource URL rules must begin with a '/' character")
        if "*" in url[:-1]:
            why = "non-resource URL wildcards '*' must be the final character of the rule"
            yield field.invalid(path.index(index), url, why)


def _invalid_resources(entries: Sequence[Mapping[str, Any]], path: Path) -> _Errors:
    # As upstream, the path does not say which entry it is.
    for entry in entries:
        group = entry.get("group") or ""
        if group not in ("", "*") and (problems := dns1123_subdomain(group)):
            yield field.invalid(path.child("group"), group, ",".join(problems))
        if entry.get("resourceNames") and not entry.get("resources"):
            why = "using resourceNames requires at least one resource"
            yield field.invalid(path.child("resourceNames"), entry["resourceNames"], why)


def _invalid_stages(stages: Collection[str], path: Path) -> _Errors:
    for index, stage in enumerate(stages):
        if stage not in STAGES:
            yield field.invalid(path.index(index), stage, f"allowed stages are {','.join(STAGES)}")
