"""Cases for `test_same_policies.py`: admission policies, and requests that they judge or change.

The behaviours of upstream's test/integration/apiserver/cel are among them.
"""

from __future__ import annotations

from typing import Any

from aggserver.meta.json_types import JSONObject
from tests.integration.comparison import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Ask, ask
from tests.integration.policy_sides import GROUP, PolicyCase

__all__ = ["CASES", "DEFINITIONS"]

_STRING, _INTEGER = {"type": "string"}, {"type": "integer"}


def _schema(color: str) -> JSONObject:
    return {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "color": {"type": "string", "default": color},
                    "size": _INTEGER,
                    "ratio": {"type": "number"},
                    "on": {"type": "boolean"},
                    "note": {"type": "string", "nullable": True},
                    "tags": {"type": "array", "items": _STRING},
                    "marks": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {
                                "name": _STRING,
                                "count": {"type": "integer", "default": 1},
                                "tags": {"type": "array", "items": _STRING},
                            },
                        },
                    },
                    "fixed": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": _STRING},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
                "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size < 1000", "message": "too large"}],
            },
            "status": {"type": "object", "properties": {"phase": _STRING, "size": _INTEGER}},
        },
    }


def _version(name: str, schema: JSONObject, **more: Any) -> JSONObject:
    return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}, **more}


def _definition(plural: str, kind: str, scope: str, versions: list[JSONObject]) -> JSONObject:
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": scope, "names": names, "versions": versions},
    }


_SUBRESOURCES = {
    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}}
}
_DATA = {"type": "object", "properties": {"most": _INTEGER, "words": {"type": "array", "items": _STRING}}}
# In v2 another default tells in which version an object was.
DEFINITIONS = [
    _definition(
        "gadgets",
        "Gadget",
        "Namespaced",
        [_version("v1", _schema("red"), **_SUBRESOURCES), _version("v2", _schema("blue"), **_SUBRESOURCES)],
    ),
    _definition("limits", "Limit", "Namespaced", [_version("v1", _DATA)]),
    _definition("regions", "Region", "Cluster", [_version("v1", _DATA)]),
]

CASES: dict[str, PolicyCase] = {}


# Requests.


def _where(plural: str = "gadgets", end: str = "", version: str = "v1", namespace: str = "$namespace") -> str:
    within = f"namespaces/{namespace}/" if namespace else ""
    return f"/apis/{GROUP}/{version}/{within}{plural}{end}"


def gadget(version: str = "v1", metadata: Any = None, **spec: Any) -> JSONObject:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Gadget",
        "metadata": {"name": "$name", **(metadata or {})},
        "spec": {"size": 3, **spec},
    }


def create(version: str = "v1", query: str = "", metadata: Any = None, **spec: Any) -> Ask:
    return ask("POST", _where(end=query, version=version), gadget(version, metadata, **spec))


def made(**spec: Any) -> Ask:
    """Created in a version that no policy is about."""
    return ask("POST", _where(version="v2", end="?fieldManager=maker"), gadget("v2", **spec), compared=False)


def update(**spec: Any) -> Ask:
    return ask("PUT", _where(end="/$name"), gadget(metadata={"resourceVersion": "$rv1"}, **spec))


def merge(body: JSONObject, end: str = "", query: str = "") -> Ask:
    return ask("PATCH", _where(end=f"/$name{end}{query}"), body, kind=MERGE_PATCH)


def delete(query: str = "") -> Ask:
    return ask("DELETE", _where(end=f"/$name{query}"))


def param(plural: str = "limits", name: str = "limit", namespace: str = "$namespace", **data: Any) -> Ask:
    kind = {"limits": "Limit", "regions": "Region"}[plural]
    labels = data.pop("labels", {})
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "labels": labels}, **data}
    return ask("POST", _where(plural, namespace=namespace if plural == "limits" else ""), body, compared=False)


# Policies.


def says(expression: str, **more: Any) -> JSONObject:
    """A policy with one validation; the rest of the policy in `more`, of which `message` and so on are the validation's."""
    own = {key: more.pop(key) for key in ("message", "messageExpression", "reason") if key in more}
    return {"validations": [{"expression": expression, **own}], **more}


def denies(**more: Any) -> JSONObject:
    return says("false", message="no", **more)


def makes(expression: str, **more: Any) -> JSONObject:
    """A policy with an apply configuration."""
    return {"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}], **more}


def patches(*expressions: str, **more: Any) -> JSONObject:
    return {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": each}} for each in expressions], **more}


def on(*operations: str, resources: Any = ("gadgets",), match: Any = None, **more: Any) -> JSONObject:
    """The matchConstraints of a policy; v1 alone, so that what is made in v2 goes by it if `match` says Exact."""
    rule = {"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": [*resources], "operations": [*operations], **more}
    return {"matchConstraints": {"resourceRules": [rule], **(match or {})}}


_EXACT = {"matchPolicy": "Exact"}


def validated(name: str, *policies: JSONObject, steps: Any = None) -> None:
    CASES[f"validating {name}"] = PolicyCase(
        *_parted(steps or [create()]), validating={"abcdef"[number]: policy for number, policy in enumerate(policies)}
    )


def mutated(name: str, *policies: JSONObject, steps: Any = None) -> None:
    CASES[f"mutating {name}"] = PolicyCase(
        *_parted(steps or [create()]), mutating={"abcdef"[number]: policy for number, policy in enumerate(policies)}
    )


def _parted(steps: list[Ask]) -> tuple[list[Ask], list[Ask]]:
    """The requests of a case, and those that make params, which are there before the policies."""
    makes_params = [step for step in steps if "/gadgets" not in step.path]
    return [step for step in steps if step not in makes_params], makes_params


# Validations: the verdict, and its words.
for _name, _policy in {
    "passes": says("object.spec.size == 3"),
    "denied": says("object.spec.size > 3"),
    "denied with a message": denies(),
    "a message with spaces": says("false", message=" no "),
    "a messageExpression": says("false", messageExpression="'size is ' + string(object.spec.size)"),
    "a messageExpression that fails": says("false", message="no", messageExpression="string(object.spec.nope)"),
    "an empty messageExpression": says("false", message="no", messageExpression="''"),
    "a messageExpression of two lines": says("false", message="no", messageExpression=r"'a\nb'"),
    "a long messageExpression": says(
        "false",
        message="no",
        messageExpression="'0123456789'.replace('', '0123456789'.replace('', '0123456789').replace('', '0123456789'))",
    ),
    "a messageExpression of the namespace": says("false", messageExpression="namespaceObject.metadata.name"),
    "a messageExpression of the request": says("false", messageExpression="request.operation + request.name + request.namespace"),
    "reason forbidden": denies() | {"validations": [{"expression": "false", "message": "no", "reason": "Forbidden"}]},
    "reason too large": {"validations": [{"expression": "false", "message": "no", "reason": "RequestEntityTooLarge"}]},
    "reason invalid": {"validations": [{"expression": "false", "message": "no", "reason": "Invalid"}]},
    "two validations": {"validations": [{"expression": "false", "message": "one"}, {"expression": "false", "message": "two"}]},
    "the second validation": {"validations": [{"expression": "true"}, {"expression": "false", "message": "two"}]},
    "an error": says("object.spec.nope == 1"),
    "an error that is ignored": says("object.spec.nope == 1", failurePolicy="Ignore"),
    "a denial is not ignored": denies(failurePolicy="Ignore"),
    "an index out of bounds": says("object.spec.parts[3].name == 'a'"),
    "another type than expected": says("object.spec.size + 'a' == 'a'"),
    "division by zero": says("1 / (object.spec.size - 3) == 1"),
    "an error beside a decision": says("object.spec.nope == 1 || object.spec.size == 3"),
    "beyond the limit of an expression": says(
        "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, "
        "[0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, a + b + c + d + e + f > -1))))))"
    ),
    "match condition": denies(matchConditions=[{"name": "m", "expression": "object.spec.size == 3"}]),
    "match condition that does not hold": denies(matchConditions=[{"name": "m", "expression": "object.spec.size != 3"}]),
    "second match condition that does not hold": denies(
        matchConditions=[{"name": "m", "expression": "object.spec.nope == 1"}, {"name": "n", "expression": "false"}]
    ),
    "match condition that fails": says("true", matchConditions=[{"name": "m", "expression": "object.spec.nope == 1"}]),
    "match conditions that fail": says(
        "true",
        matchConditions=[
            {"name": "m", "expression": "object.spec.nope == 1"},
            {"name": "n", "expression": "true"},
            {"name": "o", "expression": "object.spec.nope == 2"},
        ],
    ),
    "match condition that fails and is ignored": denies(
        matchConditions=[{"name": "m", "expression": "object.spec.nope == 1"}], failurePolicy="Ignore"
    ),
    "match condition without a namespace": denies(matchConditions=[{"name": "m", "expression": "namespaceObject == null"}]),
    "variables": says(
        "variables.twice == 7",
        variables=[{"name": "size", "expression": "object.spec.size"}, {"name": "twice", "expression": "variables.size * 2"}],
        messageExpression="'it is ' + string(variables.twice)",
    ),
    "a variable that fails": says("variables.v == 1", variables=[{"name": "v", "expression": "object.spec.nope"}]),
    "a variable that fails and is not read": says("true", variables=[{"name": "v", "expression": "object.spec.nope"}]),
    "a variable that is null": says("variables.v != null", variables=[{"name": "v", "expression": "null"}]),
    "a variable that is there": says("!has(variables.v)", variables=[{"name": "v", "expression": "1"}]),
    "a variable with the authorizer in a message": says(
        "false",
        message="no",
        messageExpression="string(variables.v)",
        variables=[{"name": "v", "expression": "authorizer.path('/x').check('get').allowed()"}],
    ),
    "null is a value": says("object.spec.note != null"),
    "has of null": says("!has(object.spec.note)"),
    "optionals": says(
        "object.?spec.?nope.orValue('none') == 'some'", messageExpression="string(object.?spec.?color.orValue('none'))"
    ),
    "the default of the schema": says("object.spec.color != 'red'", messageExpression="string(object.spec.color)"),
    "no old object": says("oldObject != null"),
    "the kind": says(
        "request.kind.kind != 'Gadget'", messageExpression="request.kind.group + request.kind.version + request.kind.kind"
    ),
    "the resource": says(
        "false", messageExpression="request.resource.group + request.resource.version + request.resource.resource"
    ),
    "the options": says(
        "false", messageExpression="request.options.kind + request.options.apiVersion + string(has(request.options.dryRun))"
    ),
    "no subresource": says("has(request.subResource) || has(request.requestSubResource)"),
    "the dry run": says("request.dryRun"),
    "uid of the namespace": says("namespaceObject.metadata.UID == ''"),
    "phase of the namespace": says("namespaceObject.status.phase != 'Active'"),
    "labels of the namespace": says(
        "false",
        messageExpression="namespaceObject.metadata.labels['kubernetes.io/metadata.name'] "
        "+ string(size(namespaceObject.spec.finalizers))",
    ),
    "a time of the namespace": says("namespaceObject.metadata.creationTimestamp > timestamp('2020-01-01T00:00:00Z')"),
    "no condition of the namespace": says("has(namespaceObject.status.conditions)"),
    "the authorizer": says("authorizer.requestResource.check('create').allowed()"),
    "the authorizer denies a service account": says(
        "authorizer.serviceAccount('x', 'robot').group('').resource('pods').namespace('x').check('get').allowed()"
    ),
    "the authorizer of a path": says("authorizer.path('/healthz').check('get').errored()"),
    "an empty path": says("authorizer.path('').check('get').allowed()"),
    "an empty resource": says("authorizer.group('').resource('').check('get').allowed()"),
    "an invalid service account": says("authorizer.serviceAccount('a.b', 'c').path('/x').check('get').allowed()"),
    "a third check": says(
        "authorizer.path('/a').check('get').allowed() && authorizer.path('/b').check('get').allowed() "
        "&& authorizer.path('/c').check('get').allowed()"
    ),
    "comparison of authorizers": says("authorizer == authorizer"),
    "type of authorizers": says("type(authorizer) == type(1)"),
    "regular expressions": says("object.metadata.name.matches('^[A-Z]+$')", message="capitals"),
    "quantities": says("quantity('1Gi').isLessThan(quantity('1Mi'))"),
    "urls": says("url('https://example.com:80/path').getHost() == 'x'"),
    "sets of strings": says("sets.contains(object.spec.tags, ['a', 'z'])"),
    "macros": says("object.spec.parts.all(p, p.count > 1)", message="counts"),
    "two variables in a macro": says("object.spec.free.all(k, v, v > 1)"),
    "formats": says(
        "!format.dns1123Label().validate('No!').hasValue()", messageExpression="format.dns1123Label().validate('No!').value()[0]"
    ),
    "strings": says(
        "object.spec.tags.join('+').upperAscii() == 'A'",
        messageExpression="'%s has %d'.format([object.spec.tags.join('+'), size(object.spec.tags)])",
    ),
    "metadata": says("object.metadata.namespace != request.namespace"),
    "uid of the object": says("has(object.metadata.uid)"),
    "managed fields": says("size(object.metadata.managedFields) != 1"),
    "api version and kind": says(
        "object.apiVersion + object.kind == ''", messageExpression="string(object.apiVersion + object.kind)"
    ),
    "numbers": says("object.spec.ratio == 0.5 && object.spec.size * 1.0 == 3.0"),
    "a double for an integer": says("type(object.spec.ratio) == int"),
}.items():
    validated(_name, _policy, steps=[create(note=None, tags=["a", "b"], parts=[{"name": "p"}], ratio=0.5, free={"a": 1})])

_WARN, _AUDIT = {"validationActions": ["Warn"]}, {"validationActions": ["Audit"]}
validated("warns", denies(bindings=[_WARN]))
validated("warns and audits", denies(bindings=[{"validationActions": ["Warn", "Audit"]}]))
validated("audits", denies(bindings=[_AUDIT]))
validated("denies and audits", denies(bindings=[{"validationActions": ["Deny", "Audit"]}]))
validated(
    "two warnings",
    {"validations": [{"expression": "false", "message": "no"}, {"expression": "object.spec.size > 5"}], "bindings": [_WARN]},
)
validated("one binding warns and one denies", denies(bindings=[_WARN, {}]))
validated("a warning with a quote", says("false", message='say "no" \\ now', bindings=[_WARN]))
validated("a warning beyond ascii", says("false", message="größer als 3", bindings=[_WARN]))
validated("a denial beyond ascii", says("false", message="größer <als> 3"))
validated("no binding", denies(bindings=[]))
validated("a warning of an error", says("object.spec.nope == 1", bindings=[_WARN]))
validated("a warning of another version", denies(bindings=[_WARN]), steps=[create("v2")])
validated("audit annotations", says("true", auditAnnotations=[{"key": "k", "valueExpression": "'v'"}]))
validated("audit annotations that fail", says("true", auditAnnotations=[{"key": "k", "valueExpression": "string(object.nope)"}]))
validated(
    "audit annotations that fail and are ignored",
    says("true", auditAnnotations=[{"key": "k", "valueExpression": "string(object.nope)"}], failurePolicy="Ignore"),
)
validated(
    "audit annotations have no authorizer",
    says("true", auditAnnotations=[{"key": "k", "valueExpression": "authorizer.path('/x').check('get').reason()"}]),
)
validated("only audit annotations", {"auditAnnotations": [{"key": "k", "valueExpression": "string(object.nope)"}]})

# Which requests.
validated(
    "a create with generateName",
    says("has(object.metadata.name)"),
    steps=[create(metadata={"name": None, "generateName": "generated-"})],
)
validated(
    "the name of a request with generateName",
    says("request.name == ''"),
    steps=[create(metadata={"name": None, "generateName": "generated-"})],
)
validated(
    "an update",
    says("object.spec.size >= oldObject.spec.size", message="shrinks", **on("UPDATE")),
    steps=[made(), update(size=4), update(size=2)],
)
validated("an update alone", denies(**on("UPDATE")), steps=[create(), merge({"spec": {"size": 5}})])
validated("a create alone", denies(**on("CREATE", match=_EXACT)), steps=[made(), merge({"spec": {"size": 5}}), create()])
validated(
    "a merge patch",
    says("object.spec.size < 5", messageExpression="request.operation + request.options.kind"),
    steps=[made(), merge({"spec": {"size": 5}})],
)
validated(
    "a json patch",
    says("object.spec.size < 5"),
    steps=[made(), ask("PATCH", _where(end="/$name"), [{"op": "replace", "path": "/spec/size", "value": 7}], kind=JSON_PATCH)],
)
validated(
    "an apply that creates",
    says("false", messageExpression="request.operation + request.options.kind + request.options.fieldManager"),
    steps=[ask("PATCH", _where(end="/$name?fieldManager=me&force=true"), gadget(), kind=APPLY_PATCH)],
)
validated(
    "an apply that updates",
    says(
        "false",
        messageExpression="request.operation + request.options.kind + string(has(request.options.force))",
        **on("UPDATE"),
    ),
    steps=[made(), ask("PATCH", _where(end="/$name?fieldManager=me&force=true"), gadget(size=4), kind=APPLY_PATCH)],
)
validated(
    "a deletion",
    says(
        "object != null", messageExpression="request.operation + oldObject.metadata.name + request.options.kind", **on("DELETE")
    ),
    steps=[made(), delete(), ask("GET", _where(end="/$name"), compared=False)],
)
validated(
    "a deletion with options",
    says("false", messageExpression="string(request.options.propagationPolicy)", **on("DELETE")),
    steps=[
        made(),
        ask("DELETE", _where(end="/$name"), {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}),
    ],
)
validated("a deletion of all", says("oldObject.spec.size == 3", **on("DELETE")), steps=[made(size=4), ask("DELETE", _where())])
validated("a deletion is not a create", denies(**on("CREATE", "UPDATE", match=_EXACT)), steps=[made(), delete()])
validated("a dry run", says("!request.dryRun"), steps=[create(query="?dryRun=All"), create()])
validated(
    "the status",
    says("object.status.phase != 'bad'", message="bad", **on("UPDATE", resources=["gadgets/status"])),
    steps=[
        made(),
        merge({"status": {"phase": "good"}}, "/status"),
        merge({"status": {"phase": "bad"}}, "/status"),
        merge({"spec": {"size": 4}}),
    ],
)
validated(
    "the name of the subresource",
    says(
        "false",
        messageExpression="request.subResource + request.requestSubResource + request.resource.resource",
        **on("UPDATE", resources=["gadgets/*"]),
    ),
    steps=[made(), merge({"status": {"phase": "good"}}, "/status"), merge({"spec": {"size": 4}})],
)
validated(
    "the scale",
    says(
        "object.spec.replicas < 5",
        messageExpression="object.kind + object.apiVersion + request.kind.kind",
        **on("UPDATE", resources=["gadgets/scale"]),
    ),
    steps=[made(), merge({"spec": {"replicas": 4}}, "/scale"), merge({"spec": {"replicas": 9}}, "/scale")],
)
validated(
    "the resource and its subresources",
    denies(**on("UPDATE", resources=["gadgets", "gadgets/status"])),
    steps=[
        made(),
        merge({"status": {"phase": "x"}}, "/status"),
        merge({"spec": {"size": 4}}),
        merge({"spec": {"replicas": 9}}, "/scale"),
    ],
)
validated(
    "all resources",
    denies(**on("*", resources=["*/*"], scope="Namespaced", match=_EXACT)),
    steps=[made(), merge({"status": {"phase": "x"}}, "/status"), create()],
)
validated("resource names", denies(**on("CREATE", resourceNames=["other"])))
validated("these resource names", denies(**on("CREATE", resourceNames=["thing"])))
validated("scope cluster", denies(**on("CREATE", scope="Cluster")))
validated("scope namespaced", denies(**on("CREATE", scope="Namespaced")))
_RULE = {"apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["gadgets"], "operations": ["*"]}
validated("excluded", denies(matchConstraints={"excludeResourceRules": [_RULE]}))
validated("excluded by name", denies(matchConstraints={"excludeResourceRules": [{**_RULE, "resourceNames": ["other"]}]}))
validated(
    "labels",
    denies(matchConstraints={"objectSelector": {"matchLabels": {"a": "b"}}}),
    steps=[create(), create(metadata={"name": "other", "labels": {"a": "b"}})],
)
validated(
    "labels of the old object",
    denies(**on("UPDATE", match={"objectSelector": {"matchLabels": {"a": "b"}}})),
    steps=[
        ask("POST", _where(version="v2"), gadget("v2", {"labels": {"a": "b"}}), compared=False),
        merge({"metadata": {"labels": None}}),
        merge({"spec": {"size": 9}}),
    ],
)
validated("exact version", denies(matchConstraints={"matchPolicy": "Exact"}), steps=[create("v2"), create()])
validated(
    "equivalent version",
    says(
        "false",
        messageExpression="object.apiVersion + object.spec.color + request.kind.version + request.requestKind.version "
        "+ request.resource.version + request.requestResource.version",
    ),
    steps=[create("v2"), create()],
)
validated(
    "equivalent version with default policy",
    says("object.spec.color == 'green'", messageExpression="string(object.spec.color)"),
    steps=[create("v2", color="x")],
)
validated(
    "binding for another namespace", denies(bindings=[{"matchResources": {"namespaceSelector": {"matchLabels": {"no": "way"}}}}])
)
validated(
    "binding for some labels",
    denies(bindings=[{"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}]),
    steps=[create(), create(metadata={"name": "other", "labels": {"a": "b"}})],
)
validated(
    "binding for some rules",
    denies(bindings=[{"matchResources": {"resourceRules": [{**_RULE, "operations": ["UPDATE"]}]}}]),
    steps=[create(), merge({"spec": {"size": 4}})],
)
validated("binding that excludes", denies(bindings=[{"matchResources": {"excludeResourceRules": [_RULE]}}]))
validated("refused by the schema first", denies(), steps=[create(size="x"), create(size=2000)])
validated("what is stored is seen", says("!has(object.spec.unknown)"), steps=[create(unknown=1)])
validated(
    "status is dropped before", says("!has(object.status)"), steps=[ask("POST", _where(), {**gadget(), "status": {"phase": "x"}})]
)

# Params.
_LIMIT = {"paramKind": {"apiVersion": f"{GROUP}/v1", "kind": "Limit"}}
_REGION = {"paramKind": {"apiVersion": f"{GROUP}/v1", "kind": "Region"}}


def refers(action: str = "Deny", **ref: Any) -> JSONObject:
    return {"paramRef": {"parameterNotFoundAction": action, **ref}}


_MOST = says("object.spec.size <= params.most", messageExpression="'more than ' + string(params.most)", **_LIMIT)
validated("a param", {**_MOST, "bindings": [refers(name="limit")]}, steps=[param(most=2), create()])
validated("a param that allows it", {**_MOST, "bindings": [refers(name="limit")]}, steps=[param(most=9), create()])
validated("a param of another namespace", {**_MOST, "bindings": [refers(name="limit", namespace="default")]}, steps=[create()])
validated("no param", {**_MOST, "bindings": [refers(name="limit")]})
validated("no param, allowed", {**_MOST, "bindings": [refers("Allow", name="limit")]})
validated("no param, ignored", {**_MOST, "failurePolicy": "Ignore", "bindings": [refers(name="limit")]})
validated(
    "params by selector",
    {**_MOST, "bindings": [refers(selector={"matchLabels": {"use": "yes"}})]},
    steps=[
        param(name="a", most=9, labels={"use": "yes"}),
        param(name="b", most=1, labels={"use": "yes"}),
        param(name="c", most=0),
        create(),
    ],
)
validated(
    "no params by selector",
    {**_MOST, "bindings": [refers(selector={"matchLabels": {"use": "yes"}})]},
    steps=[param(most=1), create()],
)
validated("all params by selector", {**_MOST, "bindings": [refers(selector={})]}, steps=[param(most=1), create()])
validated("a kind without a reference", {**says("params == null", **_LIMIT), "bindings": [{}]})
validated("a kind without a reference, read", {**_MOST, "bindings": [{}]})
validated(
    "the kind of a param",
    {
        **says("false", messageExpression="string(params.apiVersion + params.kind + params.metadata.name)", **_LIMIT),
        "bindings": [refers(name="limit")],
    },
    steps=[param(most=1), create()],
)
validated(
    "a cluster-scoped param",
    {**says("object.spec.size <= params.most", **_REGION), "bindings": [refers(name="one")]},
    steps=[param("regions", "one", most=2), create()],
)
validated(
    "a cluster-scoped param in a namespace",
    {**says("object.spec.size <= params.most", **_REGION), "bindings": [refers(name="two", namespace="default")]},
)
validated(
    "two bindings with params",
    {**_MOST, "bindings": [refers(name="a"), refers(name="b")]},
    steps=[param(name="a", most=9), param(name="b", most=1), create()],
)
validated(
    "an unknown kind of params",
    {**says("true", paramKind={"apiVersion": f"{GROUP}/v1", "kind": "Nope"}), "bindings": [refers(name="limit")]},
)
validated(
    "an unknown kind of params, ignored",
    {
        **denies(paramKind={"apiVersion": f"{GROUP}/v1", "kind": "Nope"}, failurePolicy="Ignore"),
        "bindings": [refers(name="limit")],
    },
)
validated(
    "a param in a variable and a condition",
    {
        **says(
            "variables.most > 5",
            variables=[{"name": "most", "expression": "params.most"}],
            matchConditions=[{"name": "m", "expression": "params.most > 1"}],
            **_LIMIT,
        ),
        "bindings": [refers(name="limit")],
    },
    steps=[param(most=2), create()],
)

# Several policies: which is told depends on the order of a map upstream, so that only one denies.
validated("two policies", says("true"), says("object.spec.size > 3"))
validated("one error and one that passes", says("object.spec.nope == 1", failurePolicy="Ignore"), says("object.spec.size > 3"))

# Mutations.
_READ = ask("GET", _where(end="/$name"))
for _name, _policy in {
    "a field": makes("Object{spec: Object.spec{size: object.spec.size + 1}}"),
    "a label": makes("Object{metadata: Object.metadata{labels: {'a': 'b'}}}"),
    "a label as an object": makes("Object{metadata: Object.metadata{labels: Object.metadata.labels{a: 'b'}}}"),
    "an annotation": makes("Object{metadata: Object.metadata{annotations: {'example.com/a': string(object.spec.size)}}}"),
    "nothing": makes("Object{}"),
    "an item of a list map": makes("Object{spec: Object.spec{parts: [Object.spec.parts{name: 'z'}]}}"),
    "a changed item of a list map": makes("Object{spec: Object.spec{parts: [Object.spec.parts{name: 'p', count: 7}]}}"),
    "an item of a set": makes("Object{spec: Object.spec{marks: ['a']}}"),
    "free fields": makes("Object{spec: Object.spec{free: Object.spec.free{b: 2}}}"),
    "free lists": makes("Object{spec: Object.spec{free: Object.spec.free{b: [1, 2]}}}"),
    "an atomic list": makes("Object{spec: Object.spec{tags: ['a']}}"),
    "an atomic map": makes("Object{spec: Object.spec{fixed: {'a': 'b'}}}"),
    "an atomic list in an item": makes("Object{spec: Object.spec{parts: [Object.spec.parts{name: 'p', tags: ['a']}]}}"),
    "an unknown field": makes("Object{spec: Object.spec{nope: 1}}"),
    "an unknown field at the top": makes("Object{nope: 1}"),
    "a field of a wrong type": makes("Object{spec: Object.spec{size: 'a'}}"),
    "a wrong type name": makes("Object{spec: Object.nope{size: 1}}"),
    "a wrong type name in a list": makes("Object{spec: Object.spec{parts: [Object.spec.part{name: 'a'}]}}"),
    "a key is missing": makes("Object{spec: Object.spec{parts: [Object.spec.parts{count: 2}]}}"),
    "the same key twice": makes("Object{spec: Object.spec{parts: [Object.spec.parts{name: 'a'}, Object.spec.parts{name: 'a'}]}}"),
    "what the schema refuses": makes("Object{spec: Object.spec{size: 2000}}"),
    "an error": makes("Object{spec: Object.spec{size: object.spec.nope}}"),
    "an error that is ignored": makes("Object{spec: Object.spec{size: object.spec.nope}}", failurePolicy="Ignore"),
    "the name": makes("Object{metadata: Object.metadata{name: 'other'}}"),
    "the kind": makes("Object{kind: 'Other'}"),
    "the resource version": makes("Object{metadata: Object.metadata{resourceVersion: '7'}}"),
    "the uid": makes("Object{metadata: Object.metadata{uid: 'mine'}}"),
    "the status": makes("Object{status: Object.status{phase: 'x'}}"),
    "managed fields": makes("Object{metadata: Object.metadata{managedFields: []}}"),
    "a null": makes("Object{spec: Object.spec{note: null}}"),
    "an optional field": makes("Object{spec: Object.spec{?size: object.spec.?nope}}"),
    "by a condition": makes("object.spec.size == 3 ? Object{spec: Object.spec{size: 4}} : Object{}"),
    "by a variable": makes(
        "Object{spec: Object.spec{size: variables.v}}", variables=[{"name": "v", "expression": "object.spec.size + 5"}]
    ),
    "by the request": makes(
        "Object{spec: Object.spec{note: request.operation + request.namespace + namespaceObject.metadata.name}}"
    ),
    "by the authorizer": makes("Object{spec: Object.spec{on: authorizer.requestResource.check('create').allowed()}}"),
    "a double": makes("Object{spec: Object.spec{ratio: 2.0}}"),
    "a double for an integer": makes("Object{spec: Object.spec{size: 2.0}}"),
    "match condition": makes(
        "Object{spec: Object.spec{size: 4}}", matchConditions=[{"name": "m", "expression": "object.spec.size == 4"}]
    ),
    "match condition that fails": makes(
        "Object{spec: Object.spec{size: 4}}", matchConditions=[{"name": "m", "expression": "object.spec.nope == 4"}]
    ),
    "match condition that fails and is ignored": makes(
        "Object{spec: Object.spec{size: 4}}",
        matchConditions=[{"name": "m", "expression": "object.spec.nope == 4"}],
        failurePolicy="Ignore",
    ),
    "beyond the limit": makes(
        "Object{spec: Object.spec{on: variables.l.all(a, variables.l.all(b, variables.l.all(c, variables.l.all(d, "
        "a + b + c + d > 0))))}}",
        variables=[{"name": "l", "expression": f"[{', '.join('1' * 40)}]"}],
    ),
    "patch add": patches("[JSONPatch{op: 'add', path: '/spec/note', value: 'x'}]"),
    "patch an object": patches("[JSONPatch{op: 'add', path: '/spec', value: Object.spec{size: 5, color: 'x'}}]"),
    "patch a map": patches("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b', 'c': 'd'}}]"),
    "patch an escaped key": patches(
        "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}, "
        "JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('example.com/a~b'), value: 'x'}]"
    ),
    "patch list": patches(
        "[JSONPatch{op: 'add', path: '/spec/tags/-', value: 'c'}, JSONPatch{op: 'remove', path: '/spec/tags/0'}]"
    ),
    "patch move and copy": patches(
        "[JSONPatch{op: 'move', from: '/spec/color', path: '/spec/note'}, "
        "JSONPatch{op: 'copy', from: '/spec/note', path: '/spec/color'}]"
    ),
    "patch test": patches(
        "[JSONPatch{op: 'test', path: '/spec/size', value: 3}, JSONPatch{op: 'replace', path: '/spec/size', value: 4}]"
    ),
    "patch test that fails": patches(
        "[JSONPatch{op: 'test', path: '/spec/size', value: 4}, JSONPatch{op: 'replace', path: '/spec/size', value: 5}]"
    ),
    "patch remove nothing": patches("[JSONPatch{op: 'remove', path: '/spec/nope'}]"),
    "patch add to nothing": patches("[JSONPatch{op: 'add', path: '/spec/nope/a', value: 1}]"),
    "patch add at an index": patches("[JSONPatch{op: 'add', path: '/spec/tags/9', value: 'x'}]"),
    "patch add at no index": patches("[JSONPatch{op: 'add', path: '/spec/tags/x', value: 'x'}]"),
    "patch replace the end": patches("[JSONPatch{op: 'replace', path: '/spec/tags/-', value: 'x'}]"),
    "patch replace at an index": patches("[JSONPatch{op: 'replace', path: '/spec/tags/9', value: 'x'}]"),
    "patch move from nothing": patches("[JSONPatch{op: 'move', from: '/spec/nope', path: '/spec/note'}]"),
    "patch move from far": patches("[JSONPatch{op: 'move', from: '/nope/a', path: '/spec/note'}]"),
    "patch copy from nothing": patches("[JSONPatch{op: 'copy', from: '/spec/nope', path: '/spec/note'}]"),
    "patch copy to nothing": patches("[JSONPatch{op: 'copy', from: '/spec/color', path: '/nope/a'}]"),
    "patch copy from an index": patches("[JSONPatch{op: 'copy', from: '/spec/tags/9', path: '/spec/note'}]"),
    "patch test of nothing": patches("[JSONPatch{op: 'test', path: '/nope/a', value: 1}]"),
    "patch test at an index": patches("[JSONPatch{op: 'test', path: '/spec/tags/9', value: 1}]"),
    "patch unknown operation": patches("[JSONPatch{op: 'nope', path: '/spec'}]"),
    "patch without a path": patches("[JSONPatch{op: 'add', value: 1}]"),
    "patch without a value": patches("[JSONPatch{op: 'add', path: '/spec/note'}]"),
    "patch a wrong type": patches("[JSONPatch{op: 'add', path: '/spec/size', value: 'x'}]"),
    "patch an unknown field": patches("[JSONPatch{op: 'add', path: '/spec/unknown', value: 'x'}]"),
    "patch the root": patches("[JSONPatch{op: 'replace', path: '', value: {'a': 'b'}}]"),
    "patch the root by a list": patches("[JSONPatch{op: 'replace', path: '', value: ['a']}]"),
    "patch the root by a text": patches("[JSONPatch{op: 'replace', path: '', value: 'a'}]"),
    "patch the kind": patches("[JSONPatch{op: 'replace', path: '/kind', value: 'Other'}]"),
    "patch the version": patches("[JSONPatch{op: 'replace', path: '/apiVersion', value: 'other.example.com/v1'}]"),
    "patch away the kind": patches("[JSONPatch{op: 'remove', path: '/kind'}]"),
    "patch away the name": patches("[JSONPatch{op: 'remove', path: '/metadata/name'}]"),
    "patch away the metadata": patches("[JSONPatch{op: 'remove', path: '/metadata'}]"),
    "patch the namespace": patches("[JSONPatch{op: 'replace', path: '/metadata/namespace', value: 'other'}]"),
    "patch away the spec": patches("[JSONPatch{op: 'remove', path: '/spec'}]"),
    "patch managed fields": patches("[JSONPatch{op: 'replace', path: '/metadata/managedFields', value: [{'manager': 'x'}]}]"),
    "patch away managed fields": patches("[JSONPatch{op: 'remove', path: '/metadata/managedFields'}]"),
    "patch with numbers": patches(
        "[JSONPatch{op: 'add', path: '/spec/free', value: {'a': dyn(9007199254740993), 'b': dyn(1.5), "
        "'c': dyn(2.0), 'd': dyn(true), 'e': dyn(null)}}]"
    ),
    "patch with times": patches(
        "[JSONPatch{op: 'add', path: '/spec/free', value: {'a': dyn(timestamp('2026-01-02T03:04:05.678Z')), "
        "'b': dyn(duration('90m')), 'c': dyn(b'ab')}}]"
    ),
    "patch with a quantity": patches("[JSONPatch{op: 'add', path: '/spec/note', value: quantity('1Gi')}]"),
    "patch with integer keys": patches("[JSONPatch{op: 'add', path: '/spec/free', value: {1: 'a'}}]"),
    "patch with a wrong type name": patches("[JSONPatch{op: 'add', path: '/spec/free', value: Object.spec.free{a: Object.x{}}}]"),
    "patch with nested lists": patches("[JSONPatch{op: 'add', path: '/spec/free', value: {'a': [[1, 2], [3]]}}]"),
    "patch of the object": patches(
        "[JSONPatch{op: 'add', path: '/spec/free', value: {'copy': dyn(object.spec.parts), 'labels': dyn(object.metadata)}}]"
    ),
    "patch fails": patches("[JSONPatch{op: 'add', path: '/spec/note', value: object.spec.nope}]"),
    "patches one after another": patches(
        "[JSONPatch{op: 'add', path: '/spec/size', value: 10}]",
        "[JSONPatch{op: 'add', path: '/spec/size', value: object.spec.size + 1}]",
    ),
    "patches of which one fails": patches(
        "[JSONPatch{op: 'remove', path: '/spec/nope'}]", "[JSONPatch{op: 'add', path: '/spec/size', value: 10}]"
    ),
    "patches of which one fails and is ignored": patches(
        "[JSONPatch{op: 'remove', path: '/spec/nope'}]",
        "[JSONPatch{op: 'add', path: '/spec/size', value: 10}]",
        failurePolicy="Ignore",
    ),
    "patch of no patches": patches("object.spec.size == 4 ? [JSONPatch{op: 'remove', path: '/spec'}] : []"),
    "field of a patch": patches(
        "[JSONPatch{op: 'add', path: '/spec/note', value: JSONPatch{op: 'x'}.op + string(has(JSONPatch{}.op))}]"
    ),
    "equality of objects": patches("[JSONPatch{op: 'add', path: '/spec/on', value: Object{a: 1} == Object{a: 1}}]"),
}.items():
    mutated(_name, _policy, steps=[create(tags=["a", "b"], parts=[{"name": "p"}], free={"a": 1})])

mutated(
    "an update",
    makes("Object{spec: Object.spec{size: object.spec.size + oldObject.spec.size}}", **on("UPDATE")),
    steps=[made(), merge({"spec": {"note": "x"}}, query="?fieldManager=me"), update(size=5)],
)
mutated(
    "an update that is undone",
    makes("Object{spec: Object.spec{size: oldObject.spec.size}}", **on("UPDATE")),
    steps=[made(), merge({"spec": {"size": 9}})],
)
mutated(
    "an apply",
    makes("Object{spec: Object.spec{note: 'applied'}}"),
    steps=[
        ask("PATCH", _where(end="/$name?fieldManager=me"), gadget(), kind=APPLY_PATCH),
        ask("PATCH", _where(end="/$name?fieldManager=me"), gadget(size=4), kind=APPLY_PATCH),
    ],
)
mutated(
    "a deletion is not",
    patches("[JSONPatch{op: 'remove', path: '/spec/nope'}]", **on("CREATE", "UPDATE", match=_EXACT)),
    steps=[made(), delete()],
)
mutated(
    "the status of an object",
    makes("Object{status: Object.status{phase: 'seen'}}", **on("UPDATE", resources=["gadgets/status"])),
    steps=[made(), merge({"status": {"size": 2}}, "/status")],
)
mutated(
    "the scale of an object",
    patches("[JSONPatch{op: 'replace', path: '/spec/replicas', value: 7}]", **on("UPDATE", resources=["gadgets/scale"])),
    steps=[made(), merge({"spec": {"replicas": 4}}, "/scale"), _READ],
)
mutated(
    "a finalizer",
    makes("Object{metadata: Object.metadata{finalizers: ['example.com/keep']}}"),
    steps=[create(query="?dryRun=All")],
)
mutated("a dry run", makes("Object{spec: Object.spec{size: 4}}"), steps=[create(query="?dryRun=All")])
mutated(
    "an equivalent version",
    makes("Object{spec: Object.spec{note: object.apiVersion + object.spec.color}}"),
    steps=[create("v2"), _READ],
)
mutated(
    "another version",
    makes("Object{spec: Object.spec{note: 'x'}}", matchConstraints={"matchPolicy": "Exact"}),
    steps=[create("v2")],
)
mutated(
    "the default comes after",
    patches(
        "[JSONPatch{op: 'remove', path: '/spec/color'}]", "[JSONPatch{op: 'add', path: '/spec/note', value: object.spec.color}]"
    ),
)
mutated(
    "params",
    {**makes("Object{spec: Object.spec{size: params.most}}", **_LIMIT), "bindings": [refers(name="limit")]},
    steps=[param(most=2), create()],
)
mutated("no params", {**makes("Object{spec: Object.spec{size: params.most}}", **_LIMIT), "bindings": [refers(name="limit")]})
mutated(
    "no params, allowed",
    {**makes("Object{spec: Object.spec{size: params.most}}", **_LIMIT), "bindings": [refers("Allow", name="limit")]},
)
mutated(
    "params by selector",
    {
        **makes("Object{metadata: Object.metadata{labels: {params.metadata.name: 'x'}}}", **_LIMIT),
        "bindings": [refers(selector={})],
    },
    steps=[param(name="a"), param(name="b"), create()],
)
mutated("no binding", makes("Object{spec: Object.spec{size: 4}}", bindings=[]))
mutated("two bindings", makes("Object{spec: Object.spec{size: object.spec.size + 1}}", bindings=[{}, {}]))
mutated(
    "an unknown kind of params",
    {**makes("Object{}", paramKind={"apiVersion": f"{GROUP}/v1", "kind": "Nope"}), "bindings": [refers(name="x")]},
)
_COUNT = "Object{spec: Object.spec{size: object.spec.size + 1}}"
mutated("reinvoked", makes(_COUNT, reinvocationPolicy="IfNeeded"))
mutated("not reinvoked", makes(_COUNT))
mutated("two policies", makes("Object{spec: Object.spec{size: 4}}"), makes("Object{spec: Object.spec{note: 'x'}}"))
mutated(
    "two policies, reinvoked",
    makes("Object{spec: Object.spec{size: object.spec.size + 1}}", reinvocationPolicy="IfNeeded"),
    makes(
        "Object{spec: Object.spec{ratio: has(object.spec.ratio) ? object.spec.ratio + 1.5 : 0.5}}", reinvocationPolicy="IfNeeded"
    ),
)
CASES["both kinds"] = PolicyCase(
    [create(), create(metadata={"name": "other"}, size=8)],
    validating={"v": says("object.spec.size < 9", messageExpression="'size ' + string(object.spec.size)")},
    mutating={"m": makes(_COUNT)},
)
