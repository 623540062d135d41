"""Hooks: looks up the policies that have bindings for a request, and the params of a binding.

`Hooks` is made from one state of policies and bindings, and finds those that can match a resource, so that policies about other
resources cost a write nothing. A policy is compiled when a request first matches it, and again only after it changed. Pure.
Source: k8s.io/apiserver pkg/admission/plugin/policy/generic/{policy_source,policy_matcher,policy_dispatcher}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from aggserver.admission.chain import ResourceObjects
from aggserver.admission.matching import Criteria
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.meta.selectors import LabelSelector, SelectorError

__all__ = ["Binding", "Bound", "Hook", "Hooks", "Params", "PolicyError", "collect_params"]

C = TypeVar("C")


class PolicyError(Exception):
    """A policy or binding can't be used for a request. The text is upstream's."""


class Params(Protocol):
    """The objects of a paramKind, as last known."""

    @property
    def namespaced(self) -> bool: ...

    @property
    def is_known(self) -> bool:
        """Whether they were listed."""

    def get(self, namespace: str, name: str) -> JSONObject | None:
        """namespace: '' for cluster-scoped objects."""

    def within(self, namespace: str) -> Mapping[str, JSONObject]:
        """The objects of a namespace ('' for cluster-scoped ones) by name."""


_EVERYTHING = Criteria.of_resources({"namespaceSelector": {}, "objectSelector": {}})


class Binding:
    """A binding. criteria: None without matchResources, so that it matches what its policy matches."""

    __slots__ = ("criteria", "obj", "problem")

    def __init__(self, obj: JSONObject) -> None:
        self.obj = obj
        resources = (obj.get("spec") or {}).get("matchResources")
        self.criteria = None if resources is None else Criteria.of_resources(resources)
        self.problem = "" if resources is None else _selector_problem(resources)


class Hook(Generic[C]):
    """A policy with its bindings. problem: why it can't be matched with requests; '' if it can."""

    __slots__ = ("_compile", "_compiled", "bindings", "criteria", "obj", "param_kind", "problem")

    def __init__(self, obj: JSONObject, bindings: tuple[Binding, ...], compile_: Callable[[Mapping[str, Any]], C]) -> None:
        self.obj = obj
        self.bindings = bindings
        spec = obj.get("spec") or {}
        self.param_kind: Mapping[str, Any] | None = spec.get("paramKind")
        constraints = spec.get("matchConstraints")
        if constraints is None:
            self.criteria, self.problem = _EVERYTHING, "policy contained no match constraints, a required field"
        else:
            self.criteria, self.problem = Criteria.of_resources(constraints), _selector_problem(constraints)
        self._compile = compile_
        self._compiled: C | None = None

    @property
    def is_compiled(self) -> bool:
        return self._compiled is not None

    def compiled(self) -> C:
        """The compiled policy. The first call compiles it; several threads may do so at the same time, with the same result."""
        if self._compiled is None:
            self._compiled = self._compile(self.obj.get("spec") or {})
        return self._compiled

    def keep(self, before: Hook[C] | None) -> None:
        """Take over what was compiled before, if the spec is the same."""
        if before is not None and before.obj.get("spec") == self.obj.get("spec"):
            self._compiled = before._compiled


def _selector_problem(resources: Mapping[str, Any]) -> str:
    for which in ("namespace", "object"):
        if resources.get(f"{which}Selector") is None:
            return f"a nil {which} selector was passed, please ensure selectors are initialized properly"
    return ""


# Policies, each with those of its bindings that may match.
Bound = tuple[tuple[Hook[C], tuple[Binding, ...]], ...]

# Resources in namespaces for which `Hooks.within` is remembered.
_MAX_REMEMBERED = 10_000


class Hooks(Generic[C]):
    """The policies that are bound, by the resources that they can match; ordered by name, as are the bindings of each."""

    def __init__(
        self,
        policies: Iterable[JSONObject] = (),
        bindings: Iterable[JSONObject] = (),
        *,
        compile_: Callable[[Mapping[str, Any]], C],
        before: Hooks[C] | None = None,
    ) -> None:
        by_policy: dict[str, list[JSONObject]] = {}
        for binding in bindings:
            by_policy.setdefault((binding.get("spec") or {}).get("policyName") or "", []).append(binding)
        known = {} if before is None else before._hooks
        self._hooks: dict[str, Hook[C]] = {}
        for policy in sorted(policies, key=_name):
            if bound := by_policy.get(_name(policy)):
                hook = Hook(policy, tuple(map(Binding, sorted(bound, key=_name))), compile_)
                hook.keep(known.get(_name(policy)))
                self._hooks[_name(policy)] = hook
        self._found: dict[tuple[str, str], Bound[C]] = {}
        self._within: dict[tuple[str, str, str, str], Bound[C]] = {}

    def of(self, info: ResourceInfo, objects: ResourceObjects) -> Bound[C]:
        """The policies that may match requests for the resource, each with its bindings that may. Results are remembered, at most
        one for each served resource. objects: those of the resource.
        """
        found = self._found.get((info.group, info.resource))
        if found is None:
            found = self._found[info.group, info.resource] = tuple(self._find(info, objects))
        return found

    def within(self, info: ResourceInfo, objects: ResourceObjects, namespace: JSONObject) -> Bound[C]:
        """Like `of`, without what the namespace's labels rule out. Results are remembered for each state of the namespace."""
        metadata = namespace["metadata"]
        key = info.group, info.resource, metadata.get("uid") or "", metadata.get("resourceVersion") or ""
        found = self._within.get(key)
        if found is None:
            labels = metadata.get("labels") or {}
            found = tuple(_selecting(self.of(info, objects), labels))
            if len(self._within) >= _MAX_REMEMBERED:
                self._within.clear()
            if key[2] and key[3]:
                self._within[key] = found
        return found

    def _find(self, info: ResourceInfo, objects: ResourceObjects) -> Iterator[tuple[Hook[C], tuple[Binding, ...]]]:
        for hook in self._hooks.values():
            if hook.criteria.may_match(info, objects):
                bound = tuple(each for each in hook.bindings if each.criteria is None or each.criteria.may_match(info, objects))
                # A policy that is wrong in itself is reported though none of its bindings matches.
                if bound or hook.problem or hook.param_kind is not None:
                    yield hook, bound


def _selecting(found: Bound[C], labels: Mapping[str, str]) -> Iterator[tuple[Hook[C], tuple[Binding, ...]]]:
    for hook, bindings in found:
        if hook.problem or _may_select(hook.criteria, labels):
            yield hook, tuple(each for each in bindings if each.criteria is None or _may_select(each.criteria, labels))


def _may_select(criteria: Criteria, labels: Mapping[str, str]) -> bool:
    """Whether the namespaceSelector selects these labels, or is wrong, which is reported later."""
    return not isinstance(criteria.namespaces, LabelSelector) or criteria.namespaces.matches(labels)


def _name(obj: JSONObject) -> str:
    name: str = obj["metadata"]["name"]
    return name


def collect_params(
    param_kind: Mapping[str, Any] | None, ref: Mapping[str, Any] | None, params: Params | None, namespace: str
) -> list[JSONObject | None]:
    """The params to evaluate a policy with, one after another; [None] to evaluate it once without params, [] if not at all.

    ref: the paramRef of the binding. params: of the kind; None where there is neither kind nor ref. namespace: of the request.
    Raises PolicyError.
    """
    if param_kind is None or ref is None:
        return [None]
    assert params is not None
    where = ""
    if params.namespaced:
        where = ref.get("namespace") or namespace
        if not where:
            raise PolicyError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    elif ref.get("namespace"):
        raise PolicyError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    found = _referred(ref, params, where)
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        raise PolicyError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [_with_kind(each, param_kind) for each in found]


def _referred(ref: Mapping[str, Any], params: Params, namespace: str) -> list[JSONObject]:
    name, selector = ref.get("name"), ref.get("selector")
    if name:
        if selector is not None:
            raise PolicyError("paramRef.name and paramRef.selector are mutually exclusive")
        only = params.get(namespace, name)
        return [] if only is None else [only]
    if selector is None:
        raise PolicyError("one of name or selector must be provided")
    try:
        parsed = LabelSelector.from_object(selector)
    except SelectorError as error:
        raise PolicyError(str(error)) from None
    there = params.within(namespace)
    return [there[key] for key in sorted(there) if parsed.matches(there[key]["metadata"].get("labels") or {})]


def _with_kind(param: JSONObject, kind: Mapping[str, Any]) -> JSONObject:
    """The object with apiVersion and kind, which items of a list do not have."""
    return param if param.get("kind") else {"apiVersion": kind.get("apiVersion"), "kind": kind.get("kind"), **param}
