"""Single requests that are as much work as their size allows: the table of `python -m benchmarks --hostile`'s second part.

A row of HOSTILE_REQUESTS is a name and a function that makes the request, so that others are easily added. Each is tried on a
server that has the definition of `definition()`, by an administrator. Sizes are within the 3 MiB that both servers accept as a
body.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

__all__ = ["HOSTILE_REQUESTS", "Hostile", "Sent", "built_in", "definition"]

GROUP, PLURAL, KIND = "hostile.aggserver.dev", "loads", "Load"
LOADS = f"/apis/{GROUP}/v1/namespaces/default/{PLURAL}"
CORE = "/api/v1/namespaces/default"
PODS = f"{CORE}/pods"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
TIME = "2026-01-01T00:00:00Z"
JSON, YAML = "application/json", "application/yaml"
MERGE, JSON_PATCH, STRATEGIC = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
)
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Sent:
    """A request. before, after: requests that prepare it and that end what it began, which are not measured."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON
    before: tuple[Sent, ...] = ()
    after: tuple[Sent, ...] = ()


@dataclass(frozen=True)
class Hostile:
    """seconds: how long the server is watched after the answer: what it left to do, such as events, counts too."""

    name: str
    make: Callable[[], Sent]
    seconds: float = 1.0


def definition() -> dict[str, Any]:
    spec = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "list": {"type": "array", "items": {"type": "integer"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
            "named": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
            },
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "when": {"type": "string", "format": "duration"},
        },
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    columns = [{"name": "Deep", "type": "string", "jsonPath": ".spec..a..a..a..a..zz"}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": PLURAL, "singular": "load", "kind": KIND},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema, "additionalPrinterColumns": columns}],
        },
    }


def _object(name: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": name, **metadata}, "spec": spec or {}}


def _bytes(tree: Any) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def _create(name: str, spec: Any = None, query: str = "", **metadata: Any) -> Sent:
    return Sent("POST", LOADS + query, _bytes(_object(name, spec, **metadata)))


def _entry(manager: str, fields: Any) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": f"{GROUP}/v1",
        "time": TIME,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def _managers() -> Sent:
    entries = [_entry(f"m{number}", {"f:spec": {"f:a": {}}}) for number in range(10_000)]
    return _create("managers", managedFields=entries)


def _managers_of_many_fields() -> Sent:
    entries = [_entry(f"m{number}", {"f:spec": {f"f:k{number}": {}, "f:a": {}}}) for number in range(10_000)]
    return _create("managers-fields", managedFields=entries)


def _field_paths() -> Sent:
    fields = {f"f:k{number}": {} for number in range(200_000)}
    return _create("paths", managedFields=[_entry("m", {"f:spec": fields})])


def _labels() -> Sent:
    return _create("labels", labels={f"k{number}": "" for number in range(200_000)})


def _annotations() -> Sent:
    return _create("annotations", annotations={f"k{number}": "" for number in range(200_000)})


def _finalizers() -> Sent:
    return _create("finalizers", finalizers=[f"a.b/{number}" for number in range(200_000)])


def _owners() -> Sent:
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{number}", "uid": f"{number}"} for number in range(25_000)]
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owners", "ownerReferences": owners}}
    return Sent("POST", CONFIG_MAPS, _bytes(body))


def _list(name: str, field: str, count: int, item: Callable[[int], Any], query: str = "") -> Callable[[], Sent]:
    return lambda: _create(name, {field: [item(number) for number in range(count)]}, query)


def _apply(name: str, spec: Any) -> Sent:
    return Sent("PATCH", f"{LOADS}/{name}?fieldManager=hostile&force=true", _bytes(_object(name, spec)), APPLY)


def _merge_patch() -> Sent:
    """Of an object of 1.4 MB, so that the fields of two large ones are compared."""
    before = _create("patched", {f"k{number}": 1 for number in range(100_000)})
    patch = {"spec": {f"k{number}": 2 for number in range(100_000)}}
    return Sent("PATCH", f"{LOADS}/patched?fieldManager=other", _bytes(patch), MERGE, (before,))


def _json_patch() -> Sent:
    before = _create("json-patched", {"list": [1] * 600_000})
    patch = [{"op": "add", "path": "/spec/list/0", "value": 1}] * 9_997
    return Sent("PATCH", f"{LOADS}/json-patched", _bytes(patch), JSON_PATCH, (before,))


def _retained_keys() -> Sent:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "retained"}}
    before = Sent("POST", CONFIG_MAPS, _bytes(config_map))
    keys = [f"k{number}" for number in range(30_000)]
    patch = {"data": {"$retainKeys": keys, **dict.fromkeys(keys, "")}}
    return Sent("PATCH", f"{CONFIG_MAPS}/retained", _bytes(patch), STRATEGIC, (before,))


def _review(selector: str) -> Sent:
    attributes = {"verb": "list", "resource": "pods", "labelSelector": {"rawSelector": selector}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    return Sent("POST", REVIEWS, _bytes(body | {"spec": {"resourceAttributes": attributes}}))


def _yaml_tags() -> Sent:
    tags = "".join(f"%TAG !a{number}! tag:a\n" for number in range(30_000))
    return Sent("POST", LOADS, f"{tags}---\n{_bytes(_object('tags')).decode()}".encode(), YAML)


def _repeated_keys() -> Sent:
    repeated = ",".join(f'"a{number}":1,"a{number}":1' for number in range(15_000))
    spec = f'{{"{"k" * 20_000}":{{{repeated}}}}}'
    return Sent("POST", LOADS, _bytes(_object("repeated")).replace(b'"spec":{}', b'"spec":' + spec.encode()))


def _aliases() -> Sent:
    text = _bytes(_object("aliases")).decode().replace('"spec":{}', "")
    head = "".join(f"{line}\n" for line in ("apiVersion: " + f"{GROUP}/v1", f"kind: {KIND}", "metadata: {name: aliases}"))
    assert text
    return Sent("POST", LOADS, (f"{head}spec:\n  a: &a {'x' * 20_000}\n  b: [" + "*a," * 5_000 + "]\n").encode(), YAML)


def _quantity() -> Sent:
    limits = {"limits": {"cpu": "0" * 3_000 + "!"}}
    spec = {"containers": [{"name": "a", "image": "a", "resources": limits}]}
    return Sent("POST", PODS, _bytes({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "quantity"}, "spec": spec}))


def _deep_columns() -> Sent:
    deep: Any = 1
    for _ in range(80):
        deep = {"a": deep, "b": {"a": 1}}
    return Sent("GET", LOADS + "?limit=1", b"", "", (_create("deep", deep),))


def _deep() -> Sent:
    deep: Any = 1
    for _ in range(240):
        deep = {"a": deep}
    return _create("nested", {f"k{number}": deep for number in range(1_000)})


def _schedule(schedule: str) -> Callable[[], Sent]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    cron_job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"generateName": "hostile-"}, "spec": spec}
    return lambda: Sent("POST", CRON_JOBS, _bytes(cron_job))


def built_in(path: str, kind: str, name: str, **members: Any) -> Sent:
    """A create of a built-in kind."""
    return Sent("POST", path, json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **members}).encode())


def _shared_addresses() -> Sent:
    """In the common form, in which they are mirrored to slices, each port would have all 4,000 addresses."""
    many = range(4000)
    addresses = [{"ip": f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"} for n in many]
    ports = [{"name": f"p{n}", "port": n + 1} for n in many]
    alone = [{"addresses": [{"ip": f"11.0.{n >> 8 & 255}.{n & 255}"}], "ports": [ports[n]]} for n in many]
    service = built_in(f"{CORE}/services", "Service", "shared", spec={"ports": [{"port": 80}]})
    subsets = [{"addresses": addresses, "ports": ports}, *alone]
    made = built_in(f"{CORE}/endpoints", "Endpoints", "shared", subsets=subsets)
    return replace(made, before=(service,))


def _selecting_claim() -> Sent:
    """Each of 500 volumes is compared with it."""
    nfs = {"server": "s", "path": "/p"}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nfs": nfs, "storageClassName": "many"}
    volumes = tuple(built_in("/api/v1/persistentvolumes", "PersistentVolume", f"many{n}", spec=spec) for n in range(500))
    terms = [{"key": f"a{n}", "operator": "DoesNotExist"} for n in range(5000)] + [{"key": "b", "operator": "Exists"}]
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "many",
        "selector": {"matchExpressions": terms},
    }
    return replace(built_in(f"{CORE}/persistentvolumeclaims", "PersistentVolumeClaim", "many", spec=wanted), before=volumes)


def _pods(count: int) -> tuple[Sent, ...]:
    """Pods that selectors are compared with, which other rows may have made already: then they are refused."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return tuple(built_in(PODS, "Pod", f"selected{n}", spec=spec) for n in range(count))


def _absent_labels() -> dict[str, Any]:
    """A selector of labels whose terms all hold for the Pods, but for the last."""
    terms = [{"key": f"a{n}", "operator": "DoesNotExist"} for n in range(5000)]
    return {"matchExpressions": [*terms, {"key": "b", "operator": "Exists"}]}


def _budget() -> Sent:
    spec = {"minAvailable": 1, "selector": _absent_labels()}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "hostile"}, "spec": spec}
    return Sent("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", _bytes(budget), before=_pods(500))


def _service() -> Sent:
    selector = {f"a{n}": "b" for n in range(20_000)}
    spec = {"ports": [{"port": 80}], "selector": selector}
    return replace(built_in(f"{CORE}/services", "Service", "selecting", spec=spec), before=_pods(500))


def _quota() -> Sent:
    hard = {f"count/things{n}.example.com": "1" for n in range(40_000)}
    return replace(built_in(f"{CORE}/resourcequotas", "ResourceQuota", "hostile", spec={"hard": hard}), before=_pods(500))


def _create_below_quota() -> Sent:
    """Each name of the quota is looked at for each write in its namespace."""
    return replace(built_in(f"{CORE}/configmaps", "ConfigMap", "counted"), before=(_quota(),))


def _limits() -> Sent:
    limits = [{"type": "Container", "max": {"cpu": "4"}, "default": {"cpu": "1"}} for _ in range(20_000)]
    made = built_in("/api/v1/namespaces/limited/limitranges", "LimitRange", "hostile", spec={"limits": limits})
    return replace(made, before=(built_in("/api/v1/namespaces", "Namespace", "limited"),))


def _pod(**parts: Any) -> Callable[[], Sent]:
    spec = {"containers": [{"name": "c", "image": "i"}], **parts}
    return lambda: built_in(PODS, "Pod", f"hostile-{'-'.join(parts).lower()}", spec=spec)


def _mounts() -> list[dict[str, Any]]:
    return [{"name": f"v{n}", "mountPath": f"/v{n}"} for n in range(12_000)]


# Each is the whole request: none needs another to run beside it.
HOSTILE_REQUESTS = (
    Hostile("create with 10,000 managers", _managers),
    Hostile("create with 10,000 managers of other fields", _managers_of_many_fields),
    Hostile("create with 2.2 MB of field paths", _field_paths),
    Hostile("create with 200,000 labels", _labels),
    Hostile("create with 200,000 annotations", _annotations),
    Hostile("create with 200,000 finalizers", _finalizers),
    Hostile("create with 25,000 owners", _owners),
    Hostile("create with a list of 970,000", _list("list", "list", 970_000, lambda number: 1)),
    Hostile("create with an unknown list of 970,000", _list("unknown-list", "other", 970_000, lambda number: 1)),
    Hostile("create with a set of 300,000", _list("set", "set", 300_000, lambda number: number)),
    Hostile("create with 100,000 named items", _list("named", "named", 100_000, lambda number: {"name": f"{number}"})),
    Hostile("create with 1,000,000 empty objects", _list("objects", "other", 1_000_000, lambda number: {})),
    Hostile("create with a map of 200,000", lambda: _create("map", {"map": {f"k{n}": "" for n in range(200_000)}})),
    Hostile("create with 200,000 fields", lambda: _create("fields", {f"k{number}": 1 for number in range(200_000)})),
    Hostile("create with 1,000 deep trees", _deep),
    Hostile(
        "create with 300,000 invalid items",
        _list("invalid", "list", 300_000, lambda number: "a"),
    ),
    Hostile("apply of 100,000 named items", lambda: _apply("applied", {"named": [{"name": f"{n}"} for n in range(100_000)]})),
    Hostile("apply of 200,000 fields", lambda: _apply("applied-fields", {f"k{n}": 1 for n in range(200_000)})),
    Hostile("apply of a list of 970,000", lambda: _apply("applied-list", {"list": [1] * 970_000})),
    Hostile("merge patch of 100,000 fields", _merge_patch),
    Hostile("JSON patch of 9,997 insertions", _json_patch),
    Hostile("strategic patch that retains 30,000 keys", _retained_keys),
    Hostile("review of a selector of 50,000 (", lambda: _review("(" * 50_000)),
    Hostile("review of a selector of 100,000 terms", lambda: _review(",".join(f"a{n}=b" for n in range(100_000)))),
    Hostile("list with a selector of 30,000 ,", lambda: Sent("GET", f"{LOADS}?labelSelector={quote('a' + ',' * 30_000)}")),
    Hostile("YAML of 30,000 %TAG", _yaml_tags),
    Hostile("YAML of 5,000 aliases of 20 KB", _aliases),
    Hostile("JSON of 15,000 repeated keys below a long one", _repeated_keys),
    Hostile("Pod with a quantity of 3,000 digits", _quantity),
    Hostile("CronJob with 700,000 minutes", _schedule(f"{'1,' * 700_000}1 * * * *")),
    Hostile("CronJob whose time never comes", _schedule("0 0 31 2 *")),
    Hostile("Endpoints whose 4,000 ports share 4,000 addresses", _shared_addresses),
    Hostile("claim with a selector of 5,001 terms for 500 volumes", _selecting_claim),
    Hostile("PodDisruptionBudget with 5,001 terms for 500 Pods", _budget),
    Hostile("Service with 20,000 labels for 500 Pods", _service),
    Hostile("quota of 40,000 names", _quota),
    Hostile("create under a quota of 40,000 names", _create_below_quota),
    Hostile("LimitRange of 20,000 limits", _limits),
    Hostile("Pod with 10,000 containers", _pod(containers=[{"name": f"c{n}", "image": "i"} for n in range(10_000)])),
    Hostile("Pod with 12,000 volumes", _pod(volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(12_000)])),
    Hostile(
        "Pod with 12,000 mounts of volumes",
        _pod(
            volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(12_000)],
            containers=[{"name": "c", "image": "i", "volumeMounts": _mounts()}],
        ),
    ),
    Hostile(
        "Pod with 20,000 tolerations",
        _pod(tolerations=[{"key": f"k{n}", "operator": "Exists", "effect": "NoSchedule"} for n in range(20_000)]),
    ),
    Hostile("table of a deep object by ..a..a..a", _deep_columns),
)
