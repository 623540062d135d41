"""The messages of the kinds that are read or written as protobuf: which field is which member of the JSON object.

Tables alone; `protobuf.py` reads and writes by them. Of CustomResourceDefinitions all is here, since Go's typed clients write
them so; of what clients read, what upstream has in protobuf for custom resources.
Source: the generated.proto files of k8s.io/apimachinery, k8s.io/api and k8s.io/apiextensions-apiserver, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ANSWERS", "ENVELOPE", "KINDS", "WATCH_EVENT", "Field", "Message", "strings"]


@dataclass(frozen=True, slots=True)
class Field:
    """name: of the JSON member.

    kind: string, bytes (base64 in JSON), raw (bytes), int, bool, double, json (a text of JSON), time, or a message.

    pointer: Go's field is a pointer, so that its zero value is one; others are left out when zero, as their JSON form is.
    is_map: one entry of a map from strings, whose values are of that kind.
    """

    name: str
    kind: str | Message
    repeated: bool = False
    pointer: bool = False
    is_map: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """value: makes the JSON value of the members, where that isn't an object of them. members: the other way."""

    fields: Mapping[int, Field]
    value: Callable[[dict[str, Any]], Any] | None = None
    members: Callable[[Any], dict[str, Any]] | None = None


def strings(*names: str) -> dict[int, Field]:
    """Fields 1, 2, 3 ... that are plain strings."""
    return {number: Field(name, "string") for number, name in enumerate(names, 1)}


_OWNER_REFERENCE = Message(
    {
        1: Field("kind", "string"),
        3: Field("name", "string"),
        4: Field("uid", "string"),
        5: Field("apiVersion", "string"),
        6: Field("controller", "bool", pointer=True),
        7: Field("blockOwnerDeletion", "bool", pointer=True),
    }
)
_MANAGED_FIELDS = Message(
    {
        **strings("manager", "operation", "apiVersion"),
        4: Field("time", "time"),
        6: Field("fieldsType", "string"),
        7: Field(
            "fieldsV1", Message({1: Field("raw", "json")}, lambda members: members.get("raw", {}), lambda raw: {"raw": raw})
        ),
        8: Field("subresource", "string"),
    }
)
_OBJECT_META = Message(
    {
        **strings("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"),
        7: Field("generation", "int"),
        8: Field("creationTimestamp", "time"),
        9: Field("deletionTimestamp", "time"),
        10: Field("deletionGracePeriodSeconds", "int", pointer=True),
        11: Field("labels", "string", is_map=True),
        12: Field("annotations", "string", is_map=True),
        13: Field("ownerReferences", _OWNER_REFERENCE, repeated=True),
        14: Field("finalizers", "string", repeated=True),
        17: Field("managedFields", _MANAGED_FIELDS, repeated=True),
    }
)
_METADATA = Field("metadata", _OBJECT_META)
_NAMESPACE_CONDITION = Message(
    {
        **strings("type", "status"),
        4: Field("lastTransitionTime", "time"),
        5: Field("reason", "string"),
        6: Field("message", "string"),
    }
)
_NAMESPACE = Message(
    {
        1: _METADATA,
        2: Field("spec", Message({1: Field("finalizers", "string", repeated=True)})),
        3: Field("status", Message({1: Field("phase", "string"), 2: Field("conditions", _NAMESPACE_CONDITION, repeated=True)})),
    }
)
_RESOURCE_ATTRIBUTES = Message(strings("namespace", "verb", "group", "version", "resource", "subresource", "name"))
_ACCESS_REVIEW_SPEC = Message(
    {
        1: Field("resourceAttributes", _RESOURCE_ATTRIBUTES, pointer=True),
        2: Field("nonResourceAttributes", Message(strings("path", "verb")), pointer=True),
    }
)
_DELETE_OPTIONS = Message(
    {
        1: Field("gracePeriodSeconds", "int", pointer=True),
        2: Field(
            "preconditions",
            Message({1: Field("uid", "string", pointer=True), 2: Field("resourceVersion", "string", pointer=True)}),
            pointer=True,
        ),
        3: Field("orphanDependents", "bool", pointer=True),
        4: Field("propagationPolicy", "string", pointer=True),
        5: Field("dryRun", "string", repeated=True),
    }
)
_NAMES = Message(
    {
        **strings("plural", "singular"),
        3: Field("shortNames", "string", repeated=True),
        4: Field("kind", "string"),
        5: Field("listKind", "string"),
        6: Field("categories", "string", repeated=True),
    }
)
_JSON = Message({1: Field("raw", "json", pointer=True)}, lambda members: members.get("raw"))
# It contains itself: filled below.
_SCHEMA_FIELDS: dict[int, Field] = {}
_SCHEMA = Message(_SCHEMA_FIELDS)
_SCHEMA_OR_LIST = Message(
    {1: Field("schema", _SCHEMA, pointer=True), 2: Field("list", _SCHEMA, repeated=True)},
    lambda members: members.get("list") or members.get("schema"),
)
_SCHEMA_OR_BOOL = Message(
    {1: Field("allows", "bool"), 2: Field("schema", _SCHEMA, pointer=True)},
    lambda members: members.get("schema", members.get("allows", False)),
)
_SCHEMA_OR_STRINGS = Message(
    {1: Field("schema", _SCHEMA, pointer=True), 2: Field("names", "string", repeated=True)},
    lambda members: members.get("names") or members.get("schema"),
)
_RULE = Message(
    {
        **strings("rule", "message", "messageExpression"),
        4: Field("reason", "string", pointer=True),
        5: Field("fieldPath", "string"),
        6: Field("optionalOldSelf", "bool", pointer=True),
    }
)
_SCHEMA_FIELDS.update(
    {
        **strings("id", "$schema"),
        3: Field("$ref", "string", pointer=True),
        **{number: Field(name, "string") for number, name in enumerate(("description", "type", "format", "title"), 4)},
        8: Field("default", _JSON, pointer=True),
        9: Field("maximum", "double", pointer=True),
        10: Field("exclusiveMaximum", "bool"),
        11: Field("minimum", "double", pointer=True),
        12: Field("exclusiveMinimum", "bool"),
        13: Field("maxLength", "int", pointer=True),
        14: Field("minLength", "int", pointer=True),
        15: Field("pattern", "string"),
        16: Field("maxItems", "int", pointer=True),
        17: Field("minItems", "int", pointer=True),
        18: Field("uniqueItems", "bool"),
        19: Field("multipleOf", "double", pointer=True),
        20: Field("enum", _JSON, repeated=True),
        21: Field("maxProperties", "int", pointer=True),
        22: Field("minProperties", "int", pointer=True),
        23: Field("required", "string", repeated=True),
        24: Field("items", _SCHEMA_OR_LIST, pointer=True),
        **{number: Field(name, _SCHEMA, repeated=True) for number, name in enumerate(("allOf", "oneOf", "anyOf"), 25)},
        28: Field("not", _SCHEMA, pointer=True),
        29: Field("properties", _SCHEMA, is_map=True),
        30: Field("additionalProperties", _SCHEMA_OR_BOOL, pointer=True),
        31: Field("patternProperties", _SCHEMA, is_map=True),
        32: Field("dependencies", _SCHEMA_OR_STRINGS, is_map=True),
        33: Field("additionalItems", _SCHEMA_OR_BOOL, pointer=True),
        34: Field("definitions", _SCHEMA, is_map=True),
        35: Field("externalDocs", Message(strings("description", "url")), pointer=True),
        36: Field("example", _JSON, pointer=True),
        37: Field("nullable", "bool"),
        38: Field("x-kubernetes-preserve-unknown-fields", "bool", pointer=True),
        39: Field("x-kubernetes-embedded-resource", "bool"),
        40: Field("x-kubernetes-int-or-string", "bool"),
        41: Field("x-kubernetes-list-map-keys", "string", repeated=True),
        42: Field("x-kubernetes-list-type", "string", pointer=True),
        43: Field("x-kubernetes-map-type", "string", pointer=True),
        44: Field("x-kubernetes-validations", _RULE, repeated=True),
    }
)
_SCALE = Message(
    {**strings("specReplicasPath", "statusReplicasPath"), 3: Field("labelSelectorPath", "string", pointer=True)},
)
_SUBRESOURCES = Message({1: Field("status", Message({}), pointer=True), 2: Field("scale", _SCALE, pointer=True)})
_COLUMN = Message(
    {**strings("name", "type", "format", "description"), 5: Field("priority", "int"), 6: Field("jsonPath", "string")},
)
_VERSION = Message(
    {
        **strings("name"),
        2: Field("served", "bool"),
        3: Field("storage", "bool"),
        4: Field("schema", Message({1: Field("openAPIV3Schema", _SCHEMA, pointer=True)}), pointer=True),
        5: Field("subresources", _SUBRESOURCES, pointer=True),
        6: Field("additionalPrinterColumns", _COLUMN, repeated=True),
        7: Field("deprecated", "bool"),
        8: Field("deprecationWarning", "string", pointer=True),
        9: Field("selectableFields", Message(strings("jsonPath")), repeated=True),
    }
)
_SERVICE = Message(
    {**strings("namespace", "name"), 3: Field("path", "string", pointer=True), 4: Field("port", "int", pointer=True)},
)
_CLIENT_CONFIG = Message(
    {
        1: Field("service", _SERVICE, pointer=True),
        2: Field("caBundle", "bytes"),
        3: Field("url", "string", pointer=True),
    }
)
_WEBHOOK = Message(
    {2: Field("clientConfig", _CLIENT_CONFIG, pointer=True), 3: Field("conversionReviewVersions", "string", repeated=True)},
)
_DEFINITION_SPEC = Message(
    {
        **strings("group"),
        3: Field("names", _NAMES),
        4: Field("scope", "string"),
        7: Field("versions", _VERSION, repeated=True),
        9: Field("conversion", Message({**strings("strategy"), 2: Field("webhook", _WEBHOOK, pointer=True)}), pointer=True),
        10: Field("preserveUnknownFields", "bool"),
    }
)
_CONDITION = Message(
    {
        **strings("type", "status"),
        3: Field("lastTransitionTime", "time"),
        4: Field("reason", "string"),
        5: Field("message", "string"),
        6: Field("observedGeneration", "int"),
    }
)
_DEFINITION_STATUS = Message(
    {
        1: Field("conditions", _CONDITION, repeated=True),
        2: Field("acceptedNames", _NAMES),
        3: Field("storedVersions", "string", repeated=True),
        4: Field("observedGeneration", "int"),
    }
)
_DEFINITION = Message({1: _METADATA, 2: Field("spec", _DEFINITION_SPEC), 3: Field("status", _DEFINITION_STATUS)})

_LIST_META = Message({**strings("selfLink", "resourceVersion", "continue"), 4: Field("remainingItemCount", "int", pointer=True)})
_LIST_METADATA = Field("metadata", _LIST_META)
_STATUS_DETAILS = Message(
    {
        **strings("name", "group", "kind"),
        4: Field("causes", Message(strings("reason", "message", "field")), repeated=True),
        5: Field("retryAfterSeconds", "int"),
        6: Field("uid", "string"),
    }
)
_STATUS = Message(
    {
        1: _LIST_METADATA,
        2: Field("status", "string"),
        3: Field("message", "string"),
        4: Field("reason", "string"),
        5: Field("details", _STATUS_DETAILS, pointer=True),
        6: Field("code", "int"),
    }
)
_PARTIAL_OBJECT_METADATA = Message({1: _METADATA})
_SCALE_OBJECT = Message(
    {
        1: _METADATA,
        2: Field("spec", Message({1: Field("replicas", "int")})),
        3: Field("status", Message({1: Field("replicas", "int"), 2: Field("selector", "string")})),
    }
)
_GROUP_VERSION = Message(strings("groupVersion", "version"))
_SERVER_ADDRESSES = Field("serverAddressByClientCIDRs", Message(strings("clientCIDR", "serverAddress")), repeated=True)
_API_GROUP = Message(
    {
        1: Field("name", "string"),
        2: Field("versions", _GROUP_VERSION, repeated=True),
        3: Field("preferredVersion", _GROUP_VERSION),
        4: _SERVER_ADDRESSES,
    }
)
_VERBS = Message(
    {1: Field("items", "string", repeated=True)}, lambda members: members.get("items", []), lambda items: {"items": items}
)
_API_RESOURCE = Message(
    {
        1: Field("name", "string"),
        2: Field("namespaced", "bool", pointer=True),
        3: Field("kind", "string"),
        4: Field("verbs", _VERBS),
        5: Field("shortNames", "string", repeated=True),
        6: Field("singularName", "string", pointer=True),
        7: Field("categories", "string", repeated=True),
        8: Field("group", "string"),
        9: Field("version", "string"),
        10: Field("storageVersionHash", "string"),
    }
)
_GROUP_VERSION_KIND = Message(
    {number: Field(name, "string", pointer=True) for number, name in enumerate(("group", "version", "kind"), 1)}
)
_SUBRESOURCE_DISCOVERY = Message(
    {
        1: Field("subresource", "string"),
        2: Field("responseKind", _GROUP_VERSION_KIND, pointer=True),
        3: Field("acceptedTypes", _GROUP_VERSION_KIND, repeated=True),
        4: Field("verbs", "string", repeated=True),
    }
)
_RESOURCE_DISCOVERY = Message(
    {
        1: Field("resource", "string"),
        2: Field("responseKind", _GROUP_VERSION_KIND, pointer=True),
        3: Field("scope", "string"),
        4: Field("singularResource", "string"),
        5: Field("verbs", "string", repeated=True),
        6: Field("shortNames", "string", repeated=True),
        7: Field("categories", "string", repeated=True),
        8: Field("subresources", _SUBRESOURCE_DISCOVERY, repeated=True),
    }
)
_VERSION_DISCOVERY = Message(
    {
        1: Field("version", "string"),
        2: Field("resources", _RESOURCE_DISCOVERY, repeated=True),
        3: Field("freshness", "string"),
    }
)
_GROUP_DISCOVERY = Message({1: _METADATA, 2: Field("versions", _VERSION_DISCOVERY, repeated=True)})

# What bodies may be.
KINDS = {
    "CustomResourceDefinition": _DEFINITION,
    "Namespace": _NAMESPACE,
    "SelfSubjectReview": Message({1: _METADATA}),
    "SelfSubjectAccessReview": Message({1: _METADATA, 2: Field("spec", _ACCESS_REVIEW_SPEC)}),
    "SelfSubjectRulesReview": Message({1: _METADATA, 2: Field("spec", Message(strings("namespace")))}),
    "DeleteOptions": _DELETE_OPTIONS,
    "Scale": _SCALE_OBJECT,
}
# What answers may be.
ANSWERS = {
    "APIGroup": _API_GROUP,
    "APIGroupDiscoveryList": Message({1: _LIST_METADATA, 2: Field("items", _GROUP_DISCOVERY, repeated=True)}),
    "APIGroupList": Message({1: Field("groups", _API_GROUP, repeated=True)}),
    "APIResourceList": Message({1: Field("groupVersion", "string"), 2: Field("resources", _API_RESOURCE, repeated=True)}),
    "APIVersions": Message({1: Field("versions", "string", repeated=True), 2: _SERVER_ADDRESSES}),
    "PartialObjectMetadata": _PARTIAL_OBJECT_METADATA,
    "PartialObjectMetadataList": Message({1: _LIST_METADATA, 2: Field("items", _PARTIAL_OBJECT_METADATA, repeated=True)}),
    "Status": _STATUS,
}
ENVELOPE = Message({1: Field("typeMeta", Message(strings("apiVersion", "kind"))), 2: Field("raw", "raw")})
WATCH_EVENT = Message({1: Field("type", "string"), 2: Field("object", Message({1: Field("raw", "raw")}))})
