"""The specs of access reviews: their validation, and the attributes for the authorizer.

Pure. Source: k8s.io/kubernetes pkg/apis/authorization/validation/validation.go, pkg/registry/authorization/util/helpers.go,
v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.meta.field import FieldError, Path, RawJSON, invalid, required
from aggserver.meta.golang import struct_to_json
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.selectors import FieldSelector, LabelSelector, SelectorError
from aggserver.scheme.selectors import field_requirement, label_requirement
from aggserver.scheme.types import lookup

__all__ = ["attributes", "problems", "selector_problems", "user"]

Errors = Iterator[FieldError]

_NAMES = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_BOTH = "cannot be specified in combination with resourceAttributes"
_NEITHER = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def problems(kind: str, obj: JSONMapping) -> list[FieldError]:
    """The errors of a review of this kind."""
    spec, metadata = obj.get("spec") or {}, obj.get("metadata") or {}
    found = list(_spec_problems(spec, names_user=kind != "SelfSubjectAccessReview"))
    if kind != "LocalSubjectAccessReview":
        return found + _metadata_problems(metadata, "managedFields", "must be empty")
    found += _metadata_problems(metadata, "managedFields namespace", "must be empty except for namespace")
    of_resource, of_path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if of_resource is not None and of_resource.get("namespace", "") != metadata.get("namespace", ""):
        path = Path("spec.resourceAttributes.namespace")
        found.append(invalid(path, of_resource.get("namespace", ""), "must match metadata.namespace"))
    if of_path is not None:
        found.append(_disallowed_path(of_path, "disallowed on this kind of request"))
    return found


def _metadata_problems(metadata: JSONMapping, ignored: str, why: str) -> list[FieldError]:
    given = {name: value for name, value in metadata.items() if value and name not in ignored.split()}
    if not given:
        return []
    in_order = _as_declared(metadata, "ObjectMeta")
    if metadata.get("managedFields"):
        in_order["managedFields"] = [_as_declared(entry, "ManagedFieldsEntry") for entry in metadata["managedFields"]]
    return [invalid(Path("metadata"), RawJSON(struct_to_json(in_order)), why)]


def _as_declared(value: JSONMapping, name: str) -> JSONObject:
    """The members in the order in which Go declares those of the type, and so prints them."""
    return {member: value[member] for member in lookup(f"meta/v1.{name}").members if member in value}


def _spec_problems(spec: JSONMapping, *, names_user: bool) -> Errors:
    path, of_resource, of_path = Path("spec"), spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if of_resource is not None and of_path is not None:
        yield _disallowed_path(of_path, _BOTH)
    if of_resource is None and of_path is None:
        yield invalid(path.child("resourceAttributes"), None, _NEITHER)
    if names_user and not spec.get("user") and not spec.get("groups"):
        yield invalid(path.child("user"), spec.get("user", ""), "at least one of user or group must be specified")
    for name, requirement in (("fieldSelector", field_requirement), ("labelSelector", label_requirement)):
        selector = (of_resource or {}).get(name)
        if selector is not None:
            yield from _selector_problems(selector, Path(f"spec.resourceAttributes.{name}"), requirement)


def _disallowed_path(given: JSONMapping, why: str) -> FieldError:
    """The error for nonResourceAttributes, whose value is printed as upstream prints its internal type."""
    return invalid(Path("spec.nonResourceAttributes"), {"Path": given.get("path", ""), "Verb": given.get("verb", "")}, why)


def _selector_problems(selector: JSONMapping, path: Path, requirement: Callable[..., Errors]) -> Errors:
    raw, requirements = selector.get("rawSelector"), selector.get("requirements")
    if raw and requirements:
        yield invalid(path.child("rawSelector"), raw, "may not specified at the same time as requirements")
    if not raw and not requirements:
        yield required(path.child("requirements"), f"when {path} is specified, requirements or rawSelector is required")
    for index, each in enumerate(requirements or ()):
        # Newer clients may use other operators. To ignore a requirement is safe: the question is then about a broader permission.
        yield from requirement(each, path.child("requirements").index(index), any_operator=True)


def user(spec: JSONMapping) -> UserInfo:
    """The user that a SubjectAccessReview is about."""
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return UserInfo(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


def attributes(spec: JSONMapping, who: UserInfo) -> Attributes:
    """The attributes for the authorizer, with what can be read of a field selector. No mode of authorization uses labels."""
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(who, path.get("verb", ""), path=path.get("path", ""))
    given = spec["resourceAttributes"]
    named = Attributes(who, *(given.get(name, "") for name in _NAMES))
    return named._replace(field_selector=_field_selector(given.get("fieldSelector") or {}))


def _field_selector(selector: JSONMapping) -> str:
    if raw := selector.get("rawSelector"):
        return str(raw)
    readable = filter(_is_readable_field, selector.get("requirements") or ())
    return str(FieldSelector([(each.get("key") or "", each["operator"] == "In", each["values"][0]) for each in readable]))


def selector_problems(spec: JSONMapping) -> str:
    """The text of `evaluationError` for selectors that can't be parsed; '' if all can."""
    given = spec.get("resourceAttributes") or {}
    found = []
    for name, parse, is_readable in (
        ("fieldSelector", FieldSelector.parse, _is_readable_field),
        ("labelSelector", LabelSelector.parse, _is_readable_label),
    ):
        selector = given.get(name) or {}
        requirements = selector.get("requirements") or []
        readable = [is_readable(each) for each in requirements]
        if not all(readable):
            partially = "partially " if any(readable) else ""
            found.append(f"spec.resourceAttributes.{name} {partially}ignored due to parse error")
        elif not requirements and not _parses(parse, selector.get("rawSelector", "")):
            found.append(f"spec.resourceAttributes.{name} ignored due to parse error")
    return "; ".join(found)


def _is_readable_field(requirement: JSONMapping) -> bool:
    return requirement.get("operator") in ("In", "NotIn") and len(requirement.get("values") or ()) == 1


def _is_readable_label(requirement: JSONMapping) -> bool:
    return requirement.get("operator") in _OPERATORS


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except SelectorError:
        return False
    return True
