"""Options: decodes and checks query parameters and DeleteOptions bodies. The results are values of `registry/rest.py`.

Pure. Errors are upstream's: 400 for what can't be decoded, 422 with the options' own kind (group meta.k8s.io) for invalid values.
Source: k8s.io/apimachinery pkg/apis/meta/v1/validation/validation.go, pkg/apis/meta/internalversion, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from aggserver.endpoints.field_manager import MAX_MANAGER_BYTES, manager_of
from aggserver.endpoints.served import ResourceScope
from aggserver.meta import errors, field, golang
from aggserver.meta.field import FieldError, Path
from aggserver.meta.golang import parse_int
from aggserver.meta.selectors import FieldSelector, LabelSelector, SelectorError, exact_value
from aggserver.registry.rest import DeleteOptions, ListOptions, WriteOptions
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.types import lookup

__all__ = ["delete_options", "for_collection", "given", "given_for_delete", "include_object", "list_options", "write_options"]

_META_GROUP = "meta.k8s.io"
_FIELD_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_DELETE_OPTIONS = lookup("meta/v1.DeleteOptions")
_GIVEN = ("fieldManager", "fieldValidation", "force")
_IGNORE_STORE_READ_ERROR = "ignoreStoreReadErrorWithClusterBreakingPotential"


def given(query: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
    """The options of a write that are in the query, as fields of the JSON object that admission sees."""
    found: dict[str, Any] = {name: query[name][0] for name in _GIVEN if name in query}
    if "dryRun" in query:
        found["dryRun"] = list(query["dryRun"])
    return found


def write_options(kind: str, query: Mapping[str, Sequence[str]], user_agent: str, *, applies: bool = False) -> WriteOptions:
    """The options of a write. kind: CreateOptions, UpdateOptions or PatchOptions. query: parameter -> its values.

    applies: whether it is an apply. Raises 400 and 422.
    """
    if not query and not applies:
        return WriteOptions(field_manager=manager_of(user_agent))
    manager = _first(query, "fieldManager")
    validation = _first(query, "fieldValidation")
    dry_run = list(query.get("dryRun", ()))
    problems: list[FieldError] = []
    given_force = query.get("force") if kind == "PatchOptions" else None
    force = None if given_force is None else _boolean({"force": given_force[0]}, "force")
    if applies and not manager:
        problems.append(field.required(Path("fieldManager"), "is required for apply patch"))
    if force is not None and not applies:
        problems.append(field.forbidden(Path("force"), "may not be specified for non-apply patch"))
    problems += _check_manager(manager)
    problems += _check_dry_run(dry_run)
    if validation not in _FIELD_VALIDATIONS:
        problems.append(field.not_supported(Path("fieldValidation"), validation, _FIELD_VALIDATIONS))
    if problems:
        raise errors.invalid(_META_GROUP, kind, "", problems)
    return WriteOptions(
        dry_run=bool(dry_run),
        field_manager=manager or manager_of(user_agent),
        field_validation=validation or "Warn",
        force=bool(force),
    )


def list_options(scope: ResourceScope, query: Mapping[str, str], *, name: str) -> ListOptions:
    """The options of list, watch and deletecollection. name: from the path or the field selector's metadata.name, '' for none.

    A name in the path acts as a field selector, and must be the name in a given one. As upstream, only the parameter `watch`
    decides whether the rules of a watch or of a list are checked; on the deprecated paths below /watch/ these are a list's.
    Raises 400 and 422.
    """
    watch = _boolean(query, "watch") or False
    # Upstream's order, since only the first error is reported: numbers, selectors, the rest.
    timeout_seconds = _integer(query, "timeoutSeconds")
    limit = _integer(query, "limit")
    try:
        labels = LabelSelector.parse(query.get("labelSelector", ""))
        fields = FieldSelector.parse(query.get("fieldSelector", ""))
    except SelectorError as error:
        raise errors.bad_request(str(error)) from None
    options = ListOptions(
        labels=labels,
        fields=fields,
        shard_selector=query.get("shardSelector", ""),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
        limit=max(0, limit),  # a negative limit is none
        continue_token=query.get("continue", ""),
        allow_bookmarks=_boolean(query, "allowWatchBookmarks") or False,
        send_initial_events=_boolean(query, "sendInitialEvents"),
        timeout_seconds=timeout_seconds,
    )
    if watch and _begins_with_state(options):
        options = replace(options, send_initial_events=True, resource_version_match="NotOlderThan")
    problems = _check_watch(options) if watch else _check_list(options)
    if problems:
        raise errors.invalid(_META_GROUP, "ListOptions", "", problems)
    _check_fields(fields, scope)
    if not name or exact_value(fields, "metadata.name") == name:
        return options
    if not fields.empty:
        raise errors.bad_request("fieldSelector metadata.name doesn't match requested name")
    return replace(options, fields=FieldSelector([("metadata.name", True, name)]))


def delete_options(body: Any, query: Mapping[str, Sequence[str]]) -> DeleteOptions:
    """From the decoded body, or from the query if there is no body (None). Raises 400 and 422."""
    given = _delete_query(query) if body is None else _delete_body(body)
    preconditions = given.get("preconditions") or {}
    options = DeleteOptions(
        dry_run=bool(given.get("dryRun")),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=given.get("propagationPolicy") or "",
        orphan_dependents=given.get("orphanDependents"),
        grace_period_seconds=given.get("gracePeriodSeconds"),
        ignore_store_read_error=bool(given.get(_IGNORE_STORE_READ_ERROR)),
    )
    problems: list[FieldError] = []
    if options.orphan_dependents is not None and options.propagation:
        what = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(field.invalid(Path("propagationPolicy"), options.propagation, what))
    if options.propagation and options.propagation not in _PROPAGATIONS:
        problems.append(field.not_supported(Path("propagationPolicy"), options.propagation, (*_PROPAGATIONS, "nil")))
    problems += _check_dry_run(given.get("dryRun") or [])
    if options.ignore_store_read_error:
        problems += _check_alone(given)
    if problems:
        raise errors.invalid(_META_GROUP, "DeleteOptions", "", problems)
    return options


def for_collection(options: DeleteOptions) -> DeleteOptions:
    """The options for deletecollection. Raises 422 for the option to remove unreadable objects, which works only by name."""
    if options.ignore_store_read_error:
        what = "is not allowed with DELETECOLLECTION, try again after removing the option"
        raise errors.invalid(_META_GROUP, "DeleteOptions", "", [field.invalid(Path(_IGNORE_STORE_READ_ERROR), True, what)])
    return options


def _check_alone(given: Mapping[str, Any]) -> list[FieldError]:
    """The errors for options beside the one to remove an unreadable object, none of which can be honored for such an object."""
    others = ("dryRun", "propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions")
    set_too = [name for name in others if (given.get(name) if name == "dryRun" else given.get(name) is not None)]
    path = Path(_IGNORE_STORE_READ_ERROR)
    return [field.invalid(path, True, f"cannot be set together with .{name}") for name in set_too]


def given_for_delete(query: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
    """As `given`, for a deletion without a body."""
    return {name: value for name, value in _delete_query(query).items() if value is not None}


def _delete_query(query: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
    first = {key: values[0] for key, values in query.items()}
    return {
        "dryRun": list(query.get("dryRun", ())),
        "propagationPolicy": first.get("propagationPolicy"),
        "orphanDependents": _boolean(first, "orphanDependents"),
        _IGNORE_STORE_READ_ERROR: _boolean(first, _IGNORE_STORE_READ_ERROR),
        "gracePeriodSeconds": _integer(first, "gracePeriodSeconds") if first.get("gracePeriodSeconds") else None,
    }


def _delete_body(body: Mapping[str, Any]) -> Mapping[str, Any]:
    if why := decode_error(body, _DELETE_OPTIONS):
        raise errors.bad_request(why)
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        raise errors.bad_request("decoded object cannot be converted to DeleteOptions")
    return body


def include_object(query: Mapping[str, str]) -> str:
    """What the rows of a Table include of their objects: None, Metadata (the default) or Object."""
    given = query.get("includeObject", "")
    if given not in ("", "None", "Metadata", "Object"):
        problem = field.invalid(Path("includeObject"), given, "must be 'Metadata', 'Object', 'None', or empty")
        raise errors.bad_request(f"Unable to convert to Table as requested: {problem}")
    return given or "Metadata"


def _check_list(options: ListOptions) -> list[FieldError]:
    problems = []
    path, match = Path("resourceVersionMatch"), options.resource_version_match
    if match:
        if not options.resource_version:
            problems.append(field.forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            problems.append(field.forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            problems.append(field.not_supported(path, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and options.resource_version == "0":
            problems.append(field.forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        problems.append(field.forbidden(Path("sendInitialEvents"), "sendInitialEvents is forbidden for list"))
    return problems


def _begins_with_state(options: ListOptions) -> bool:
    """Whether a watch has no revision, so that it begins with the current objects, and a bookmark after them if allowed."""
    is_explicit = options.send_initial_events is not None or options.resource_version_match
    return not is_explicit and options.resource_version in ("", "0")


def _check_watch(options: ListOptions) -> list[FieldError]:
    problems = []
    path, match = Path("resourceVersionMatch"), options.resource_version_match
    if options.send_initial_events is not None and match != "NotOlderThan":
        problems.append(field.forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if match:
        if options.send_initial_events is None:
            problems.append(
                field.forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            )
        if match != "NotOlderThan":
            problems.append(field.not_supported(path, match, ("NotOlderThan",)))
        if options.continue_token:
            problems.append(field.forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
    return problems


_NOT_SUPPORTED = "field label not supported: {}"
# Kinds with an error text of their own.
_UNSUPPORTED = {
    "Job": 'field label "{}" not supported for Job',
    "ResourceSlice": "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
}


def _check_fields(fields: FieldSelector, scope: ResourceScope) -> None:
    # Built-in kinds without selectable fields of their own have upstream's default ones.
    by_default = scope.built_in and not scope.selectable_fields
    for name in fields.fields():
        if name in scope.selectable_fields or name == "metadata.name":
            continue
        if name == "metadata.namespace" and (scope.info.namespaced or by_default):
            continue
        if by_default:
            why = f'{golang.quote(name)} is not a known field selector: only "metadata.name", "metadata.namespace"'
            raise errors.bad_request(why)
        raise errors.bad_request(_UNSUPPORTED.get(scope.kind if scope.built_in else "", _NOT_SUPPORTED).format(name))


def _check_manager(manager: str) -> list[FieldError]:
    path = Path("fieldManager")
    problems = [field.too_long(path, MAX_MANAGER_BYTES)] if len(manager.encode()) > MAX_MANAGER_BYTES else []
    for index, character in enumerate(manager):
        if not character.isprintable():
            where = len(manager[:index].encode())
            problems.append(field.invalid(path, manager, f"invalid character U+{ord(character):04X} (at position {where})"))
    return problems


def _check_dry_run(values: Any) -> list[FieldError]:
    if set(values) <= {"All"}:
        return []
    return [field.not_supported(Path("dryRun"), values, ("All",))]


def _first(query: Mapping[str, Sequence[str]], key: str) -> str:
    values = query.get(key)
    return values[0] if values else ""


def _integer(query: Mapping[str, str], key: str) -> int:
    if key not in query:
        return 0
    try:
        return parse_int(query[key])
    except ValueError as error:
        raise errors.bad_request(str(error)) from None


def _boolean(query: Mapping[str, str], key: str) -> bool | None:
    """Any value but `false` and `0` is true, even the empty one, as in Go's conversion of query parameters."""
    if key not in query:
        return None
    return query[key].lower() not in ("false", "0")
