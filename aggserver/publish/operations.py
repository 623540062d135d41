"""Operations: the paths of a resource, and the parameters, bodies and responses of their methods.

Independent of the OpenAPI version: the builders convert a `PathItem` to theirs. Ids, descriptions and parameters are upstream's,
since generated clients name their functions after them.
Pure. Source: k8s.io/apiextensions-apiserver pkg/controller/openapi/builder/builder.go (generateBuilder, buildRoute) and
k8s.io/apiserver pkg/endpoints/openapi/openapi.go (GetOperationIDAndTags), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from aggserver.publish import builtin
from aggserver.publish.models import Published, list_model_name, own_model_name

__all__ = [
    "APPLY_PATCH",
    "BODY_TYPES",
    "JSON_PATCH",
    "MERGE_PATCH",
    "PATCH_TYPES",
    "STRATEGIC_PATCH",
    "Operation",
    "PathItem",
    "paths",
]

# Media types of request and response bodies. Protobuf is supported for a few kinds but not advertised, as upstream for custom
# resources.
BODY_TYPES = ("application/json", "application/yaml")
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
# Strategic merge patch must not be listed, since kubectl would use it for custom resources, too.
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)

_LIST_PARAMETERS = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
)
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_OK = ("200", "OK")
_CREATED = ("201", "Created")
_ACCEPTED = ("202", "Accepted")


@dataclass(frozen=True, slots=True)
class _Form:
    """The fixed parts of an action. verb: begins the operation's id and description. responses: codes and texts, in order."""

    method: str
    action: str
    verb: str
    needs: str  # the verb of discovery that the operation requires
    parameters: tuple[str, ...]
    responses: tuple[tuple[str, str], ...] = (_OK,)
    suffix: str = ""  # of the id, which then has no "Namespaced"


_LIST = _Form("get", "list", "list", "list", _LIST_PARAMETERS)
_LIST_EVERYWHERE = replace(_LIST, suffix="ForAllNamespaces")
_CREATE = _Form("post", "post", "create", "create", _WRITE_PARAMETERS, (_OK, _CREATED, _ACCEPTED))
_DELETE_COLLECTION = _Form("delete", "deletecollection", "deletecollection", "deletecollection", _LIST_PARAMETERS)
_READ = _Form("get", "get", "read", "get", ("resourceVersion",))
_REPLACE = _Form("put", "put", "replace", "update", _WRITE_PARAMETERS, (_OK, _CREATED))
_DELETE = _Form(
    "delete",
    "delete",
    "delete",
    "delete",
    (
        "dryRun",
        "gracePeriodSeconds",
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "orphanDependents",
        "propagationPolicy",
    ),
    (_OK, _ACCEPTED),
)
_PATCH = _Form("patch", "patch", "patch", "patch", ("dryRun", "fieldManager of patch", "fieldValidation", "force"))


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of a path. result, body: model names; body is empty if there is none.

    parameters: keys of `builtin.parameters()`, sorted by name.
    """

    method: str
    action: str
    operation_id: str
    description: str
    tag: str
    parameters: tuple[str, ...]
    result: str
    responses: tuple[tuple[str, str], ...]
    body: str = ""
    body_required: bool = False


@dataclass(frozen=True, slots=True)
class PathItem:
    """A path and its methods. parameters: those of all methods, as keys of `builtin.parameters()`, or `name` with `name_text`."""

    path: str
    parameters: tuple[str, ...]
    name_text: str
    operations: tuple[Operation, ...]


def paths(published: Published) -> Iterator[PathItem]:
    """The resource's paths: all namespaces, collection, object, /finalize, /status, /scale; only those that its verbs need."""
    info = published.info
    prefix = f"/apis/{info.api_version}" if info.group else f"/api/{info.version}"
    model = own_model_name(published)
    builder = _Builder(published)
    if info.namespaced:
        yield from builder.item(f"{prefix}/{info.resource}", "", (_LIST_EVERYWHERE, list_model_name(published)))
        prefix += "/namespaces/{namespace}"
    collection = f"{prefix}/{info.resource}"
    yield from builder.item(
        collection,
        "",
        (_LIST, list_model_name(published)),
        (_CREATE, model),
        (_DELETE_COLLECTION, builtin.STATUS),
    )
    yield from builder.item(
        f"{collection}/{{name}}", "", (_READ, model), (_REPLACE, model), (_DELETE, builtin.STATUS), (_PATCH, model)
    )
    for subresource, result in (("finalize", model), ("status", model), ("scale", builtin.SCALE)):
        yield from builder.item(
            f"{collection}/{{name}}/{subresource}", subresource, (_READ, result), (_REPLACE, result), (_PATCH, result)
        )


class _Builder:
    """Builds the operations of one resource."""

    def __init__(self, published: Published) -> None:
        info = self._info = published.info
        resource = published.resource
        # A subresource has its own verbs: it can be written even if the resource is read-only.
        self._verbs = {"": resource.verbs} | {each.name: each.verbs for each in resource.subresources}
        group = (info.group or "core").removesuffix(".k8s.io")
        self._id = _identifier(group, capital=True) + _identifier(info.version, capital=True)
        self._tag = f"{_identifier(group)}_{_identifier(info.version)}"

    def item(self, path: str, subresource: str, *forms: tuple[_Form, str]) -> Iterator[PathItem]:
        """One path, or none if it has no operations. Parameters that all its operations share move to the path."""
        verbs = self._verbs.get(subresource, ())
        operations = [self._operation(form, result, subresource) for form, result in forms if form.needs in verbs]
        if not operations:
            return
        common = frozenset(operations[0].parameters).intersection(*(operation.parameters for operation in operations))
        own = [
            replace(operation, parameters=tuple(key for key in operation.parameters if key not in common))
            for operation in operations
        ]
        in_path = [name for name in ("name", "namespace") if f"{{{name}}}" in path]
        yield PathItem(path, tuple(sorted((*in_path, *common, "pretty"))), f"name of the {self._info.kind}", tuple(own))

    def _operation(self, form: _Form, result: str, subresource: str) -> Operation:
        kind = self._info.kind
        # In the id, the verb of a deletecollection is `delete`, followed by `Collection`.
        verb, rest = ("delete", "Collection") if form.verb == "deletecollection" else (form.verb, "")
        scope = "Namespaced" if self._info.namespaced and not form.suffix else ""
        body, required = _body(form, result)
        return Operation(
            method=form.method,
            action=form.action,
            operation_id=f"{verb}{self._id}{rest}{scope}{kind}{subresource.title()}{form.suffix}",
            description=_describe(form.verb, kind, subresource),
            tag=self._tag,
            parameters=form.parameters,
            result=result,
            responses=form.responses,
            body=body,
            body_required=required,
        )


def _body(form: _Form, result: str) -> tuple[str, bool]:
    """(model of the body, whether the body is required)."""
    if form is _PATCH:
        return builtin.PATCH, True
    if form is _DELETE:
        return builtin.DELETE_OPTIONS, False
    return (result, True) if form in (_CREATE, _REPLACE) else ("", False)


def _describe(verb: str, kind: str, subresource: str) -> str:
    of = f" {subresource} of" if subresource else ""
    if verb == "list":
        return f"list objects of kind {kind}"
    if verb == "deletecollection":
        return f"delete collection of {kind}"
    if verb == "patch":
        return f"partially update{of} the specified {kind}"
    if verb in ("read", "replace"):
        return f"{verb}{of} the specified {kind}"
    return f"{verb}{_article(kind)}{kind}"


def _article(noun: str) -> str:
    """` a `, ` an `, or a space if the noun looks like a plural."""
    if noun.endswith("s") and not noun.endswith("ss"):
        return " "
    return " an " if noun[0].lower() in "aeiou" else " a "


def _identifier(text: str, capital: bool = False) -> str:
    """`stable.example.com` -> `stableExampleCom`: removes characters invalid in an identifier and capitalizes the next letter."""
    out: list[str] = []
    for index, char in enumerate(text):
        if char.isalpha() or char == "_" or (index and char.isdigit()):
            out.append(char.upper() if capital else char)
            capital = False
        else:
            capital = True
    return "".join(out)
