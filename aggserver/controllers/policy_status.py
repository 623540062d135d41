"""The controller that writes the status of ValidatingAdmissionPolicies: it checks their expressions against the served schemas.

The status says which generation was checked, and has a warning for each expression that does not fit the resources that the
policy names. As upstream, a policy is checked when its spec has changed, and not when a definition has.
Source: k8s.io/kubernetes pkg/controller/validatingadmissionpolicystatus/controller.go, v1.36.3; k8s.io/apiserver
pkg/cel/openapi/resolver/{discovery,refs}.go; k8s.io/apimachinery pkg/api/meta/restmapper.go (KindsFor), v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from aggserver.admissionregistration.strategy import KINDS, RegistrationStatusStrategy
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import CONTROLLER, CallLater, Informer, call_later
from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject
from aggserver.meta.versions import GroupVersionKind
from aggserver.publish import builtin
from aggserver.registry.rest import ApplyConfiguration, Context, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.subresources import StatusStore
from aggserver.schema import structural
from aggserver.schema.structural import Structural

__all__ = ["PolicyStatusController"]

_KIND = next(kind for kind in KINDS if kind.has_status)
# Upstream's name for the controller.
_WRITE = WriteOptions(field_manager="validatingadmissionpolicy-status", force=True, bounded=False)


class PolicyStatusController:
    """store: of ValidatingAdmissionPolicies. installer: knows the resources that are served, and their schemas."""

    def __init__(self, store: Store, installer: Installer, later: CallLater = call_later) -> None:
        self._status = StatusStore(store.with_strategy(RegistrationStatusStrategy(_KIND)))
        self._installer = installer
        self._informer = Informer(store, self._sync, later)

    async def run(self) -> None:
        await self._informer.run()

    async def _sync(self, name: str, policy: JSONObject | None) -> float | None:
        if policy is None:
            return None
        generation = policy["metadata"].get("generation", 0)
        if generation <= (policy.get("status") or {}).get("observedGeneration", 0):
            return None
        from aggserver.admission.policy.type_checking import check_types  # CEL, which a start does not need

        kinds, schemas = partial(_kinds, self._installer), partial(_schema, self._installer)
        # In a thread: a policy may have thousands of expressions, and a schema thousands of fields.
        warnings = await asyncio.to_thread(check_types, policy.get("spec") or {}, kinds, schemas)
        found = [{"fieldRef": each.field_ref, "warning": each.warning} for each in warnings]
        configuration = {
            "apiVersion": _KIND.info.api_version,
            "kind": _KIND.name,
            "metadata": {"name": name},
            "status": {"observedGeneration": generation, "typeChecking": {"expressionWarnings": found} if found else {}},
        }
        await self._status.apply(
            WriteRequest(Context(CONTROLLER), _WRITE), name, ApplyConfiguration(codec.encode_json(configuration))
        )
        return None


def _kinds(installer: Installer, group: str, version: str, resource: str) -> list[GroupVersionKind]:
    """The kinds of a resource, named in plural or singular. As upstream, group '' stands for any group."""
    name = resource.lower()
    found = [each for each in installer.everything() if name in (each.info.resource, each.resource.singular)]
    kinds = [GroupVersionKind(each.info.group, each.info.version, each.info.kind) for each in found]
    return [kind for kind in kinds if kind.version == version and group in ("", kind.group)]


def _schema(installer: Installer, kind: GroupVersionKind) -> Structural | None:
    """The published schema of a kind, with the full schema of metadata; None if it has none."""
    for served in installer.everything():
        if (served.info.group, served.info.version, served.info.kind) == (kind.group, kind.version, kind.kind):
            published = served.published
            if published.type_name:
                return _of_type(published.type_name)
            return structural.compile(_with_metadata(published.schema)) if published.schema else None
    return None


def _of_type(type_name: str) -> Structural:
    """The schema of a built-in kind, from the tables of `scheme/`."""
    from aggserver.scheme.openapi import model_name, models

    known, name = models([type_name]), model_name(type_name)
    return structural.compile(_resolved(known[name], known, (name,)))


def _with_metadata(schema: Mapping[str, Any]) -> JSONObject:
    text = {"type": "string"}
    return {
        **schema,
        "properties": {**schema.get("properties", {}), "kind": text, "apiVersion": text, "metadata": _object_meta()},
    }


@cache
def _object_meta() -> JSONObject:
    known = builtin.schemas()
    found: JSONObject = _resolved(known[builtin.OBJECT_META], known)
    return found


_PREFIX = "#/components/schemas/"
_KEPT = ("type", "format")


def _resolved(schema: Mapping[str, Any], known: Mapping[str, JSONObject], inside: tuple[str, ...] = ()) -> JSONObject:
    """A built-in schema, reduced to types, with its references replaced by what they refer to.

    known: the schemas that are referred to, by name. inside: the names of those that this one is part of: they become an object
    without fields, as upstream.
    """
    for reference in (schema, *schema.get("allOf", ())):
        if "$ref" in reference:
            name = reference["$ref"].removeprefix(_PREFIX)
            if name in inside:
                return {"type": "object"}
            return _resolved(known[name], known, (*inside, name))
    made: JSONObject = {name: schema[name] for name in _KEPT if name in schema}
    if schema.get("format") == "int-or-string":
        made = {structural.INT_OR_STRING: True}
    if "properties" in schema:
        made["properties"] = {name: _resolved(inner, known, inside) for name, inner in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            made[name] = _resolved(schema[name], known, inside)
    return made
