"""RuntimeClass: what the class that a Pod names adds to it: overhead, node selector and tolerations.

Pure. Source: k8s.io/kubernetes plugin/pkg/admission/runtimeclass/admission.go, pkg/util/tolerations, v1.36.3.
"""

from __future__ import annotations

from aggserver.meta import quantity
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["apply_class", "overhead_problem"]

_DIFFERENT = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


def apply_class(spec: JSONObject, runtime: JSONMapping) -> str:
    """Change the spec of a new Pod. runtime: a RuntimeClass. Returns why the Pod is refused, '' if it is not."""
    if (overhead := runtime.get("overhead")) is not None:
        fixed = overhead.get("podFixed") or {}
        if spec.get("overhead") and not _same(fixed, spec["overhead"]):
            return _DIFFERENT
        spec.pop("overhead", None)
        if fixed:
            spec["overhead"] = dict(fixed)
    scheduling = runtime.get("scheduling")
    if scheduling is None:
        return ""
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.setdefault(key, value) != value:
            of_class, of_pod = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}", f"pod.spec.nodeSelector[{key}]"
            return f"conflict: {of_class}; {of_pod} = {selector[key]}"
    if selector:
        spec["nodeSelector"] = selector
    if tolerations := _merged([*(spec.get("tolerations") or ()), *(scheduling.get("tolerations") or ())]):
        spec["tolerations"] = tolerations
    return ""


def overhead_problem(spec: JSONMapping, runtime: JSONMapping | None) -> str:
    """Why a Pod is refused as other plugins have left it; '' if it is not."""
    overhead = (runtime or {}).get("overhead")
    if overhead is not None:
        return "" if _same(overhead.get("podFixed") or {}, spec.get("overhead") or {}) else _DIFFERENT
    if spec.get("overhead"):
        return "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    return ""


def _same(one: JSONMapping, other: JSONMapping) -> bool:
    return one.keys() == other.keys() and all(
        quantity.parse(str(amount)).compare(quantity.parse(str(other[name]))) == 0 for name, amount in one.items()
    )


_Parts = tuple[str, str, str, str, int | None]
# Key, whether the operator is Exists, value if it is not, effect: tolerations of one cell differ only in their seconds.
_Cell = tuple[str, bool, str, str]


def _merged(tolerations: list[JSONObject]) -> list[JSONObject]:
    """Without those that another one covers. Of equal ones the first is kept, of those that cover each other the last.

    A toleration is compared only with the longest one of each cell that can cover it, since a Pod may have many.
    """
    distinct: dict[_Parts, JSONObject] = {}
    for each in tolerations:
        distinct.setdefault(_parts(each), each)
    longest: dict[_Cell, tuple[int, _Parts]] = {}
    for index, parts in enumerate(distinct):
        cell = parts[0], parts[1] == "Exists", "" if parts[1] == "Exists" else parts[2], parts[3]
        known = longest.get(cell)
        if known is None or _covers(parts, known[1]):
            longest[cell] = index, parts
    kept = []
    for index, (parts, toleration) in enumerate(distinct.items()):
        found = [longest[cell] for cell in _covering_cells(parts) if cell in longest]
        if not any(
            other != parts and _covers(other, parts) and (place > index or not _covers(parts, other)) for place, other in found
        ):
            kept.append(dict(toleration))
    return kept


def _covering_cells(parts: _Parts) -> set[_Cell]:
    key, _, value, effect, _ = parts
    of_exists = {(each, True, "", effects) for each in (key, "") for effects in (effect, "")}
    return of_exists | {(key, False, value, effects) for effects in (effect, "")}


def _parts(toleration: JSONMapping) -> _Parts:
    key, operator, value, effect = (str(toleration.get(name) or "") for name in ("key", "operator", "value", "effect"))
    return key, operator, value, effect, toleration.get("tolerationSeconds")


def _covers(wide: _Parts, narrow: _Parts) -> bool:
    key, operator, value, effect, seconds = wide
    if narrow[0] != key and (key or operator != "Exists"):
        return False
    if narrow[3] != effect and effect:
        return False
    if effect == "NoExecute" and seconds is not None and (narrow[4] is None or narrow[4] > seconds):
        return False
    if operator in ("", "Equal"):
        return narrow[1] == "Equal" and narrow[2] == value
    return operator == "Exists"
