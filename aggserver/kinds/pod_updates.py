"""What an update of a Pod may change: images, deadline and gates, added tolerations, and the placement of a gated Pod.

Pure. Source: ValidatePodUpdate in k8s.io/kubernetes pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aggserver.kinds.tolerations import toleration_problems
from aggserver.meta import field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.golang import to_json
from aggserver.meta.json_types import JSONObject
from aggserver.scheme.types import Type, lookup

__all__ = ["changed_annotations", "changed_pod", "semantic"]


_SPEC, _ANNOTATIONS = Path("spec"), Path("metadata").child("annotations")
_AFFINITY = _SPEC.child("affinity", "nodeAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_CONTAINERS = ("containers", "initContainers")
_MAX_INT32 = 2**31 - 1
_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
# Annotation, or the start of its name -> its name in errors.
_KEPT_ANNOTATIONS = {
    "container.apparmor.security.beta.kubernetes.io/": "AppArmor annotations",
    "kubernetes.io/config.mirror": "mirror pod annotation",
}


def changed_pod(obj: JSONObject, old: JSONObject) -> list[FieldError]:
    """The errors of an update. As upstream, some errors of containers and of the deadline hide all later ones."""
    spec, before = obj["spec"], old["spec"]
    problems = list(changed_annotations(obj, old))
    for name in _CONTAINERS:
        now, was = spec.get(name) or (), before.get(name) or ()
        if len(now) != len(was):
            return [*problems, field.forbidden(_SPEC.child(name), "pod updates may not add or remove containers")]
        problems += _images(now, _SPEC.child(name), required=True)
    deadline, stops = _deadline(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    problems += deadline
    if stops:
        return problems
    problems += _tolerations(spec.get("tolerations") or (), before.get("tolerations") or ())
    problems += _gates(spec.get("schedulingGates") or (), before.get("schedulingGates") or ())
    if spec == before:
        return problems
    gated = bool(before.get("schedulingGates"))
    if gated:
        problems += _placement(spec, before)
    placed = gated and _node_affinity(spec) != _node_affinity(before)
    fixed = _fixed_part(spec, gated, placed), _fixed_part(before, gated, placed)
    seconds, grace = before.get("terminationGracePeriodSeconds"), spec.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds < 0 and grace == 1:
        fixed[0]["terminationGracePeriodSeconds"] = seconds
    if fixed[0] != fixed[1]:
        problems.append(field.forbidden(_SPEC, _FIXED))
    return problems


def changed_annotations(obj: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    """The errors of annotations that the kubelet reads: they can be neither added nor changed, also through `/status`."""
    now, was = (each["metadata"].get("annotations") or {} for each in (obj, old))
    for name in (name for name in was if now.get(name) != was[name]):
        if (what := _kept_annotation(name)) is not None:
            yield field.forbidden(_ANNOTATIONS.key(name), f"may not remove or update {what}")
    for name in (name for name in now if name not in was):
        if (what := _kept_annotation(name)) is not None:
            yield field.forbidden(_ANNOTATIONS.key(name), f"may not add {what}")


def _kept_annotation(name: str) -> str | None:
    return next((what for start, what in _KEPT_ANNOTATIONS.items() if _is_of(name, start)), None)


def _is_of(name: str, start: str) -> bool:
    return name.startswith(start) if start.endswith("/") else name == start


def _images(containers: Sequence[JSONObject], path: Path, *, required: bool) -> Iterator[FieldError]:
    for index, container in enumerate(containers):
        image = container.get("image") or ""
        if required and not image:
            yield field.required(path.index(index).child("image"))
        if image.strip() != image:
            yield field.invalid(path.index(index).child("image"), image, "must not have leading or trailing whitespace")


def _deadline(seconds: int | None, before: int | None) -> tuple[list[FieldError], bool]:
    """The errors of the deadline, and whether they hide all later errors."""
    path = _SPEC.child("activeDeadlineSeconds")
    if seconds is None:
        text = "must not update from a positive integer to nil value"
        return [] if before is None else [field.invalid(path, None, text)], False
    if not 0 <= seconds <= _MAX_INT32:
        return [field.invalid(path, seconds, f"must be between 0 and {_MAX_INT32}, inclusive")], True
    if before is not None and before < seconds:
        return [field.invalid(path, seconds, "must be less than or equal to previous value")], True
    return [], False


def _tolerations(tolerations: Sequence[JSONObject], before: Sequence[JSONObject]) -> list[FieldError]:
    given = set(map(_toleration, tolerations))
    path = _SPEC.child("tolerations")
    if all(_toleration(each) in given for each in before):
        return list(toleration_problems(tolerations, path))
    return [field.forbidden(path, "existing toleration can not be modified except its tolerationSeconds")]


def _toleration(toleration: JSONObject) -> tuple[str, ...]:
    return tuple(toleration.get(name) or "" for name in ("key", "operator", "value", "effect"))


def _gates(gates: Sequence[JSONObject], before: Sequence[JSONObject]) -> Iterator[FieldError]:
    added = {gate["name"]: index for index, gate in enumerate(gates)}
    for gate in before:
        added.pop(gate["name"], None)
    for name, index in added.items():
        path = _SPEC.child("schedulingGates").index(index).child("name")
        yield field.forbidden(path, f"only deletion is allowed, but found new scheduling gate '{name}'")


def _placement(spec: JSONObject, before: JSONObject) -> Iterator[FieldError]:
    """The errors of the placement of a gated Pod, which can only be narrowed."""
    selector, was = spec.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if not selector.items() >= was.items():
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield field.invalid(_SPEC.child("nodeSelector"), selector or None, text)
    path = _AFFINITY.child(_REQUIRED, "nodeSelectorTerms")
    terms, had = _terms(spec), _terms(before)
    if had and len(terms) != len(had):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield field.invalid(path, field.RawJSON(f"[{','.join(map(_go_term, terms))}]" if terms else "null"), text)
    elif had:
        for index, (term, known) in enumerate(zip(terms, had, strict=True)):
            if not _only_adds(term, known):
                value = field.RawJSON(_go_term(term))
                yield field.invalid(path.index(index), value, "only additions are allowed (no mutations or deletions)")


def _terms(spec: JSONObject) -> Sequence[JSONObject]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()


def _only_adds(term: JSONObject, before: JSONObject) -> bool:
    terms = [semantic(each, "core/v1.NodeSelectorTerm") for each in (term, before)]
    parts = [tuple(each.get(name, []) for each in terms) for name in ("matchExpressions", "matchFields")]
    if not any(was for _, was in parts):
        return not any(now for now, _ in parts)
    return all(now[: len(was)] == was for now, was in parts)


def _go_term(term: JSONObject) -> str:
    """A term as in upstream's errors: as JSON of Go's internal type, whose members have Go's names."""
    parts = []
    for name in ("matchExpressions", "matchFields"):
        requirements = [
            f'{{"Key":{to_json(each.get("key", ""))},"Operator":{to_json(each.get("operator", ""))},'
            f'"Values":{to_json(each.get("values") or None)}}}'
            for each in term.get(name) or ()
        ]
        parts.append(f'"{name[0].upper()}{name[1:]}":' + (f"[{','.join(requirements)}]" if requirements else "null"))
    return f"{{{','.join(parts)}}}"


def _node_affinity(spec: JSONObject) -> Any:
    return semantic((spec.get("affinity") or {}).get("nodeAffinity"), "core/v1.NodeAffinity")


def _fixed_part(spec: JSONObject, gated: bool, placed: bool) -> dict[str, Any]:
    """The part of a spec that can't change. gated: whether the Pod was gated. placed: whether its node affinity changes."""
    free = {"activeDeadlineSeconds", "schedulingGates", "tolerations", *_CONTAINERS, *(("nodeSelector",) if gated else ())}
    kept = {name: value for name, value in spec.items() if name not in free}
    for name in _CONTAINERS:
        kept[name] = [{**each, "image": ""} for each in spec.get(name) or ()]
    if placed and kept.get("affinity") is not None:
        kept["affinity"] = {name: value for name, value in kept["affinity"].items() if name != "nodeAffinity" and value} or None
    result: dict[str, Any] = semantic(kept, "core/v1.PodSpec")
    return result


def semantic(value: Any, type_name: str) -> Any:
    """A value without empty lists and maps, which equality.Semantic does not distinguish from missing ones. Keeps empty structs.

    type_name: its type, in the tables of `scheme/`. It is looked up here, since reading the tables takes time at a start.
    """
    return _semantic(value, lookup(type_name))


def _semantic(value: Any, of: Type) -> Any:
    if of.kind == "struct" and isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for name, inner in value.items():
            if inner is None or (member := of.members.get(name)) is None:
                continue
            same = _semantic(inner, member.type)
            if member.pointer or same not in ({}, []):
                found[name] = same
        return found
    if of.element is None or value is None:
        return value
    if isinstance(value, Mapping):
        return {key: _semantic(inner, of.element) for key, inner in value.items()}
    return [_semantic(inner, of.element) for inner in value]
