"""JSON Schemas as pydantic, msgspec and people write them: each with the structural schema, or the refusal."""

from __future__ import annotations

from typing import Any

KEEP = {"x-kubernetes-preserve-unknown-fields": True}
STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
PORT = {"type": "object", "properties": {"name": STRING}, "required": ["name"]}
CAT = {
    "type": "object",
    "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer", "default": 9}},
    "required": ["kind"],
}
DOG = {
    "type": "object",
    "properties": {"kind": {"enum": ["dog"]}, "tricks": {"type": "array", "items": STRING}},
    "required": ["kind", "tricks"],
}
PETS = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["cat", "dog"]},
        "lives": INTEGER,
        "tricks": {"type": "array", "items": STRING},
    },
    "required": ["kind"],
    "x-kubernetes-validations": [
        {"rule": 'self.kind != "cat" || (!has(self.tricks))', "message": "kind cat can't have tricks"},
        {
            "rule": 'self.kind != "dog" || (has(self.tricks) && !has(self.lives))',
            "message": "kind dog needs tricks and can't have lives",
        },
    ],
}

JSON_SCHEMAS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("plain", {"type": "string", "title": "T", "examples": ["a"]}, STRING),
    ("const", {"const": "a", "title": "T"}, {"type": "string", "enum": ["a"]}),
    ("const with type", {"const": "a", "type": "string"}, {"type": "string", "enum": ["a"]}),
    ("enum without type", {"enum": [1, 2]}, {"type": "integer", "enum": [1, 2]}),
    ("int or float", {"anyOf": [{"type": "integer"}, {"type": "number"}]}, {"type": "number"}),
    ("exclusive", {"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
    (
        "both bounds",
        {"type": "integer", "minimum": 0, "exclusiveMinimum": 5, "maximum": 3, "exclusiveMaximum": 9},
        {"type": "integer", "minimum": 5, "exclusiveMinimum": True, "maximum": 3},
    ),
    (
        "OpenAPI's bounds",
        {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
        {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
    ),
    ("anything", {}, KEEP),
    ("anything with a description", {"title": "T", "description": "d"}, {"description": "d", **KEEP}),
    ("any object", {"type": "object", "additionalProperties": True}, {"type": "object", **KEEP}),
    ("msgspec's dict", {"type": "object"}, {"type": "object", **KEEP}),
    ("map", {"type": "object", "additionalProperties": STRING}, {"type": "object", "additionalProperties": STRING}),
    ("map of anything", {"type": "object", "additionalProperties": {}}, {"type": "object", **KEEP}),
    ("forbid", {**PORT, "additionalProperties": False}, PORT),
    ("allow", {**PORT, "additionalProperties": True}, {**PORT, **KEEP}),
    ("list", {"type": "array", "items": STRING}, {"type": "array", "items": STRING}),
    ("list of anything", {"type": "array", "items": {}}, {"type": "array", "items": KEEP}),
    (
        "set",
        {"type": "array", "items": STRING, "uniqueItems": True},
        {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
    ),
    ("base64", {"type": "string", "contentEncoding": "base64"}, {"type": "string", "format": "byte"}),
    ("unchecked format", {"type": "string", "format": "path"}, STRING),
    (
        "deprecated",
        {"type": "string", "deprecated": True, "description": "d"},
        {"type": "string", "description": "d\nDeprecated."},
    ),
    (
        "null items",
        {"type": "array", "items": {"anyOf": [INTEGER, NULL]}},
        {"type": "array", "items": {**INTEGER, "nullable": True}},
    ),
    (
        "optional",
        {"type": "object", "properties": {"a": {"anyOf": [STRING, NULL], "default": None, "title": "A"}}},
        {"type": "object", "properties": {"a": STRING}},
    ),
    (
        "required null",
        {"type": "object", "properties": {"a": {"anyOf": [STRING, NULL]}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {**STRING, "nullable": True}}, "required": ["a"]},
    ),
    (
        "list of types",
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {**STRING, "nullable": True}}, "required": ["a"]},
    ),
    (
        "optional enum",
        {"type": "object", "properties": {"a": {"anyOf": [{"enum": ["x"]}, NULL], "default": None}}},
        {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}},
    ),
    ("union", {"oneOf": [CAT, DOG], "discriminator": {"propertyName": "kind"}}, PETS),
    (
        "msgspec's union",
        {"anyOf": [CAT, DOG], "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/Cat"}}},
        PETS,
    ),
    (
        "int or string",
        {"x-kubernetes-int-or-string": True, "anyOf": [INTEGER, STRING]},
        {"x-kubernetes-int-or-string": True, "anyOf": [INTEGER, STRING]},
    ),
    (
        "structural",
        {
            "type": "object",
            "properties": {"a": {"type": "string", "nullable": True, "maxLength": 5}, "b": {"type": "integer", "default": 1}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            "x-kubernetes-validations": [{"rule": "has(self.b)"}],
        },
        {
            "type": "object",
            "properties": {"a": {"type": "string", "nullable": True, "maxLength": 5}, "b": {"type": "integer", "default": 1}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            "x-kubernetes-validations": [{"rule": "has(self.b)"}],
        },
    ),
]

# Schema of a whole object, structural schema.
DOCUMENTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "references",
        {
            "$defs": {"Port": PORT, "Ports": {"type": "array", "items": {"$ref": "#/$defs/Port"}}},
            "type": "object",
            "properties": {
                "ports": {"$ref": "#/$defs/Ports"},
                "main": {"$ref": "#/$defs/Port", "description": "Main.", "default": {"name": "a"}},
                "older": {"allOf": [{"$ref": "#/$defs/Port"}], "description": "Older."},
                "maybe": {"anyOf": [{"$ref": "#/$defs/Port"}, NULL], "default": None},
            },
        },
        {
            "type": "object",
            "properties": {
                "ports": {"type": "array", "items": PORT},
                "main": {**PORT, "description": "Main.", "default": {"name": "a"}},
                "older": {**PORT, "description": "Older."},
                "maybe": PORT,
            },
        },
    ),
    (
        "root reference",
        {
            "$ref": "#/$defs/Site",
            "$defs": {"Site": {"title": "Site", "type": "object", "properties": {"a": STRING}, "required": []}},
        },
        {"type": "object", "properties": {"a": STRING}},
    ),
]

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "null enum",
        {"type": "object", "properties": {"a": {"anyOf": [{"enum": ["x"]}, NULL]}}, "required": ["a"]},
        "Site.value.a: null never passes an enum: make the field optional instead",
    ),
    ("mixed enum", {"enum": ["a", 1]}, "Site.value: an enum has texts, integers, numbers or booleans of one type"),
    ("int or str", {"anyOf": [STRING, INTEGER]}, "Site.value: use x-kubernetes-int-or-string: true for integers or texts"),
    (
        "union",
        {"anyOf": [STRING, {"type": "array", "items": STRING}]},
        "Site.value: a field has one type: use an object with one optional field per case",
    ),
    (
        "union without constants",
        {"oneOf": [CAT, PORT], "discriminator": {"propertyName": "kind"}},
        "Site.value: each case of the union needs its own constants of kind",
    ),
    ("list of what", {"type": "array"}, "Site.value: list of what? Give it items"),
    (
        "set of objects",
        {"type": "array", "items": PORT, "uniqueItems": True},
        "Site.value: a set has texts, numbers or booleans: use a list, with x-kubernetes-list-type map if objects have a key",
    ),
    (
        "tuple",
        {"type": "array", "prefixItems": [STRING]},
        "Site.value: a tuple of fixed length is no type of a schema: use an object",
    ),
    (
        "pattern of keys",
        {"type": "object", "patternProperties": {"^a": STRING}},
        "Site.value: a schema can't check keys: use additionalProperties, and a rule for the keys",
    ),
    (
        "writeOnly",
        {"type": "string", "writeOnly": True},
        "Site.value: whoever may read an object sees all of it: keep secrets in a Secret, and refer to it",
    ),
    ("conditions", {"type": "object", "if": {}}, "Site.value: use an x-kubernetes-validations rule for conditions"),
    (
        "unknown keyword",
        {"type": "string", "frobnicate": 1},
        "Site.value: frobnicate is no keyword of a structural schema: leave it out",
    ),
    (
        "both kinds of objects",
        {**PORT, "additionalProperties": STRING},
        "Site.value{}: an object has either properties or additionalProperties",
    ),
    ("bound", {"type": "integer", "maximum": 2**70}, f"Site.value: the bound {2**70} is outside of 64 bits: leave it out"),
    (
        "pattern",
        {"type": "string", "pattern": "(?=a)"},
        "Site.value: the pattern must be in Go's syntax (RE2): error parsing regexp: invalid or unsupported Perl syntax: `(?=`; "
        "use a validate hook for what it lacks",
    ),
    ("no reference", {"$ref": "#/$defs/Nothing"}, "Site.value: $ref #/$defs/Nothing names nothing in this document"),
    ("other document", {"$ref": "https://example.com"}, "Site.value: $ref https://example.com names nothing in this document"),
    (
        "recursive",
        {"$ref": "#"},
        "Site.value.value: a schema can't contain itself: leave the type out and set x-kubernetes-preserve-unknown-fields",
    ),
    ("no schema", {"type": "array", "items": [STRING]}, "Site.value: items must be a schema"),
    ("only a length", {"maxLength": 1}, "Site.value: has no type: give it one"),
    (
        "default",
        {"type": "integer", "default": "a"},
        'Site: schema.properties[value].default: Invalid value: "string":  in body must be of type integer: "string"',
    ),
]
