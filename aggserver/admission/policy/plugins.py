"""ValidatingAdmissionPolicies and MutatingAdmissionPolicies: the plugins, which collect the inputs of policies for a write.

They match policies and bindings with the request, look up params and the namespace, convert the object to the version that a
policy asks for, and ask the authorizer for the checks of its expressions. The policies themselves are evaluated by pure modules.
Compiling a policy takes milliseconds, and so is done in a thread, as is the evaluation of expressions that cost much.
Source: k8s.io/apiserver pkg/admission/plugin/policy/generic/{plugin,policy_dispatcher}.go,
pkg/admission/plugin/policy/{validating,mutating}/dispatcher.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from aggserver.admission.chain import DELETE, Attributes, Target
from aggserver.admission.matching import Criteria, matches
from aggserver.admission.policy import mutating, validating
from aggserver.admission.policy.conditions import MatchConditionError
from aggserver.admission.policy.environment import Answers, Inputs
from aggserver.admission.policy.evaluating import Authorize, evaluated
from aggserver.admission.policy.hooks import Binding, Bound, Hook, Hooks, Params, PolicyError, collect_params
from aggserver.admission.policy.mutating import Invocation, Invocations
from aggserver.admission.policy.patches import MutationError
from aggserver.merge.atom import Atom
from aggserver.meta import errors, versions
from aggserver.meta.errors import StatusError
from aggserver.meta.golang import json_kind, to_json
from aggserver.meta.json_types import JSONObject, json_copy

__all__ = ["FindParams", "Lookups", "MutatingAdmissionPolicies", "PolicyKind", "ValidatingAdmissionPolicies"]

C = TypeVar("C")
T = TypeVar("T")

# Policies themselves, so that nobody is locked out who wants to repair one, and reviews of who may do what, which a policy could
# make impossible for all.
# Source: k8s.io/apiserver pkg/admission/plugin/policy/generic/plugin.go (admissionResources), v0.36.3; k8s.io/kubernetes
# pkg/kubeapiserver/admission/exclusion/resources.go, v1.36.3.
_EXCLUDED = frozenset(
    (
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    )
)

# (name) -> the namespace; None if there is none. Raises StatusError.
FindNamespace = Callable[[str], Awaitable[JSONObject | None]]
# (apiVersion, kind) -> the objects of a paramKind; None if there is no such kind. Waits a second at most for them to be listed.
FindParams = Callable[[str, str], Awaitable[Params | None]]


@dataclass(frozen=True, slots=True)
class Lookups:
    """What policies ask for beside the objects of a request. authorize: answers the checks of their expressions."""

    find_namespace: FindNamespace
    find_params: FindParams
    authorize: Authorize


class PolicyKind(Protocol):
    """The objects of one kind, as last known. generation: differs after each change."""

    @property
    def generation(self) -> int: ...

    def __iter__(self) -> Iterator[JSONObject]: ...


class _Matched(NamedTuple):
    """A policy and a binding that match the request, and the params to evaluate it with."""

    policy: JSONObject
    binding: JSONObject
    target: Target
    params: list[JSONObject | None]


class _Reports(Protocol):
    def misconfigured(self, policy: JSONObject, binding: JSONObject | None, why: str) -> None: ...


@dataclass(slots=True)
class _Request:
    """A write, with what was looked up, converted and answered for it so far."""

    attributes: Attributes
    obj: JSONObject | None
    old: JSONObject | None
    lookups: Lookups
    answers: Answers = field(default_factory=dict)
    _namespace: JSONObject | None = None
    _inputs: dict[Target, Inputs] = field(default_factory=dict)
    _converted: dict[str, tuple[JSONObject | None, JSONObject | None]] = field(default_factory=dict)

    async def matches(self, criteria: Criteria) -> Target | None:
        attributes = self.attributes
        equivalents = attributes.objects.equivalents(attributes.subresource) if criteria.equivalent else ()
        return await matches(criteria, attributes, self.obj, self.old, equivalents, self._labels)

    async def namespace(self) -> JSONObject | None:
        """The namespace; None for cluster-scoped objects, also for a Namespace, though its request has a namespace."""
        attributes = self.attributes
        if not attributes.namespace or (attributes.kind, attributes.object_version) == ("Namespace", "v1"):
            return None
        if self._namespace is None:
            self._namespace = await self._find(attributes.namespace)
        return self._namespace

    async def _labels(self, name: str) -> Mapping[str, str]:
        if self._namespace is None:
            self._namespace = await self._find(name)
        labels: Mapping[str, str] = self._namespace["metadata"].get("labels") or {}
        return labels

    async def _find(self, name: str) -> JSONObject:
        found = await self.lookups.find_namespace(name)
        if found is None:
            raise errors.not_found("", "namespaces", name)
        return found

    async def versioned(self, api_version: str) -> tuple[JSONObject | None, JSONObject | None]:
        """The object and the old one in a version. Raises StatusError."""
        if api_version == self.attributes.object_version:
            return self.obj, self.old
        if api_version not in self._converted:
            convert = self.attributes.objects.convert
            obj = None if self.obj is None else await convert(self.obj, api_version)
            old = None if self.old is None else await convert(self.old, api_version)
            self._converted[api_version] = obj, old
        return self._converted[api_version]

    async def inputs(self, target: Target) -> Inputs:
        found = self._inputs.get(target)
        if found is None:
            obj, old = await self.versioned(target.api_version)
            found = self._inputs[target] = Inputs(self.attributes, target, obj, old, await self.namespace(), self.answers)
        return found

    async def evaluate(self, compute: Callable[[Inputs], T], inputs: Inputs) -> T:
        return await evaluated(compute, inputs, self.lookups.authorize)


class _Plugin(ABC, Generic[C]):
    """What both plugins share: the hooks, and which of them match a request."""

    def __init__(self, policies: PolicyKind, bindings: PolicyKind, lookups: Lookups) -> None:
        self._policies = policies
        self._bindings = bindings
        self._lookups = lookups
        self._compiling = asyncio.Lock()
        self._generations: tuple[int, int] | None = None
        self._hooks: Hooks[C] = Hooks(compile_=self._compile)

    @staticmethod
    @abstractmethod
    def _compile(spec: Mapping[str, Any], /) -> C: ...

    def concerns(self, attributes: Attributes) -> bool:
        """Whether there are policies that may match the request."""
        found = self._hooks_for(attributes)
        return any(hook.problem or hook.criteria.may_concern(attributes.operation) for hook, _ in found)

    def _hooks_for(self, attributes: Attributes) -> Bound[C]:
        generations = self._policies.generation, self._bindings.generation
        if generations != self._generations:
            self._hooks = Hooks(self._policies, self._bindings, compile_=self._compile, before=self._hooks)
            self._generations = generations
        info = attributes.resource
        found = self._hooks.of(info, attributes.objects)
        return () if found and (info.group, info.resource) in _EXCLUDED else found

    async def _bound(self, request: _Request) -> Bound[C]:
        """The policies with their bindings, without those that the labels of the namespace rule out."""
        attributes = request.attributes
        found, hooks = self._hooks_for(attributes), self._hooks
        info = attributes.resource
        if not found or not attributes.namespace or info.resource == "namespaces":
            return found
        try:
            namespace = await request.namespace()
        except StatusError:
            return found  # reported only if a policy needs the namespace
        return found if namespace is None else hooks.within(info, attributes.objects, namespace)

    def _request(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> _Request:
        return _Request(attributes, obj, old, self._lookups)

    async def _matched(
        self, request: _Request, hook: Hook[C], bindings: tuple[Binding, ...], reports: _Reports
    ) -> AsyncIterator[_Matched]:
        """The bindings of the policy that match, if the policy does."""
        policy = hook.obj
        try:
            target = None if hook.problem else await request.matches(hook.criteria)
            if target is None:
                if hook.problem:
                    reports.misconfigured(policy, None, hook.problem)
                return
            params = await self._params_of(hook)
        except PolicyError as error:
            reports.misconfigured(policy, None, str(error))
            return
        except StatusError as error:
            reports.misconfigured(policy, None, error.message)
            return
        for binding in bindings:
            try:
                if binding.problem:
                    raise PolicyError(binding.problem)
                if binding.criteria is not None and await request.matches(binding.criteria) is None:
                    continue
                found = self._collect(request, hook, binding, params)
            except (PolicyError, StatusError) as error:
                reports.misconfigured(policy, binding.obj, error.message if isinstance(error, StatusError) else str(error))
                continue
            yield _Matched(policy, binding.obj, target, found)

    async def _params_of(self, hook: Hook[C]) -> Params | None:
        """The params of the policy's kind; None if it has none. Raises PolicyError for an unknown kind."""
        if hook.param_kind is None:
            return None
        api_version, kind = hook.param_kind.get("apiVersion") or "", hook.param_kind.get("kind") or ""
        params = await self._lookups.find_params(api_version, kind)
        if params is None:
            group, version = versions.parse_group_version(api_version)
            raise PolicyError(f"failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")
        return params

    @staticmethod
    def _collect(request: _Request, hook: Hook[C], binding: Binding, params: Params | None) -> list[JSONObject | None]:
        ref = (binding.obj.get("spec") or {}).get("paramRef")
        kind = hook.param_kind
        if kind is not None and ref is not None and params is not None and not params.is_known:
            text = f"&ParamKind{{APIVersion:{kind.get('apiVersion')},Kind:{kind.get('kind')},}}"
            raise PolicyError(f"paramKind kind `{text}` not yet synced to use for admission")
        return collect_params(kind, ref, params, request.attributes.namespace)

    async def _compiled(self, hook: Hook[C]) -> C:
        if not hook.is_compiled:
            # One after another, since many requests may come for a policy that is new.
            async with self._compiling:
                if not hook.is_compiled:
                    await asyncio.to_thread(hook.compiled)
        return hook.compiled()


class ValidatingAdmissionPolicies(_Plugin[validating.CompiledValidatingPolicy]):
    """The plugin of the validating phase: refuses what a policy denies, warns, and sets audit annotations."""

    _compile = staticmethod(validating.compile_policy)

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        request, verdict = self._request(attributes, obj, old), validating.PolicyVerdict(attributes)
        for hook, bindings in await self._bound(request):
            async for policy, binding, target, params in self._matched(request, hook, bindings, verdict):
                if not params:
                    continue
                try:
                    await request.versioned(target.api_version)
                except StatusError as error:
                    verdict.misconfigured(policy, binding, f"failed to convert object version: {error.message}")
                    continue
                inputs, compiled = await request.inputs(target), await self._compiled(hook)
                for param in params:
                    decided = await request.evaluate(partial(_validate, compiled, param), inputs)
                    verdict.add(policy, binding, *decided)
        verdict.conclude(obj)


def _validate(
    compiled: validating.CompiledValidatingPolicy, param: JSONObject | None, inputs: Inputs
) -> tuple[list[validating.PolicyDecision], list[validating.Annotation]]:
    return validating.evaluate(compiled, inputs, param)


class MutatingAdmissionPolicies(_Plugin[mutating.CompiledMutatingPolicy]):
    """The plugin of the mutating phase: changes objects as policies say."""

    _compile = staticmethod(mutating.compile_policy)

    def __init__(self, policies: PolicyKind, bindings: PolicyKind, lookups: Lookups, max_object_bytes: int) -> None:
        """max_object_bytes: how large a mutation may make an object."""
        super().__init__(policies, bindings, lookups)
        self._max_object_bytes = max_object_bytes

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        if attributes.operation == DELETE or obj is None:
            return False
        request, refusals = self._request(attributes, obj, old), mutating.Refusals(attributes)
        found: list[tuple[Hook[mutating.CompiledMutatingPolicy], _Matched]] = []
        for hook, bindings in await self._bound(request):
            async for matched in self._matched(request, hook, bindings, refusals):
                try:
                    await request.versioned(matched.target.api_version)
                except StatusError as error:
                    refusals.misconfigured(matched.policy, None, error.message)
                else:
                    found.append((hook, matched))
        changed = False
        if found:
            changed = await self._invoke(request, obj, found, refusals)
        refusals.conclude(obj)
        return changed

    async def _invoke(
        self,
        request: _Request,
        obj: JSONObject,
        found: list[tuple[Hook[mutating.CompiledMutatingPolicy], _Matched]],
        refusals: mutating.Refusals,
    ) -> bool:
        """Invoke the policies in turn. Returns whether the object was touched."""
        round_ = request.attributes.reinvocation
        invocations: Invocations = round_.state.setdefault(MutatingAdmissionPolicies, Invocations())
        if round_.again and invocations.output != obj:
            # Other plugins have changed it in between.
            invocations.changed()
        work = _Work(request, refusals, self._max_object_bytes)
        for hook, matched in found:
            compiled = await self._compiled(hook)
            for param in matched.params:
                inputs = await request.inputs(matched.target)
                inputs.obj = work.current.get(matched.target.api_version, inputs.obj)
                try:
                    if not await request.evaluate(partial(_holds, compiled, param), inputs):
                        continue
                except MatchConditionError as error:
                    refusals.failed(matched.policy, matched.binding, str(error))
                    continue
                invocation = _invocation(matched, param)
                if round_.again and not invocations.is_due(invocation):
                    continue
                if await work.mutate(matched, compiled, inputs, param):
                    invocations.changed()
                    round_.wanted = True
                if compiled.is_reinvoked:
                    invocations.invoked(invocation)
        touched = await work.write_back(obj)
        if touched:
            invocations.changed()
            round_.wanted = True
        invocations.output = json_copy(obj)
        return touched


@dataclass(slots=True)
class _Work:
    """The object while policies change it. current: the changed object in each version in which a policy has changed it. last:
    the version that was changed last; changes in other versions are lost, as upstream.
    """

    request: _Request
    refusals: mutating.Refusals
    max_object_bytes: int
    current: dict[str, JSONObject] = field(default_factory=dict)
    last: str = ""

    async def mutate(
        self, matched: _Matched, compiled: mutating.CompiledMutatingPolicy, inputs: Inputs, param: JSONObject | None
    ) -> bool:
        """Apply the mutations of one policy. Returns whether they changed the object. Raises StatusError."""
        before = inputs.obj
        objects, self.last = self.request.attributes.objects, matched.target.api_version
        atom = objects.type_of(matched.target)
        for mutation in compiled.mutations:
            try:
                mutate = partial(_mutate, compiled, mutation, param, atom, self.max_object_bytes)
                made = await self.request.evaluate(mutate, inputs)
                accepted = _as_object(made)
                objects.accept_of_policy(accepted, self.request.attributes.object_version)
            except (MutationError, ValueError) as error:
                self.refusals.failed(matched.policy, matched.binding, str(error))
            else:
                inputs.obj = self.current[self.last] = accepted
        return inputs.obj != before

    async def write_back(self, obj: JSONObject) -> bool:
        """Write the policies' changes into `obj`. Returns whether there were any. Raises StatusError."""
        made = self.current.get(self.last)
        if made is None:
            return False
        attributes = self.request.attributes
        if made.get("apiVersion") != attributes.object_version:
            try:
                made = await attributes.objects.convert(made, attributes.object_version)
            except StatusError as error:
                raise errors.internal_error(f"failed to convert object: {error.message}") from error
        obj.clear()
        obj.update(made)
        return True


def _holds(compiled: mutating.CompiledMutatingPolicy, param: JSONObject | None, inputs: Inputs) -> bool:
    return compiled.conditions.holds(inputs, param)


def _mutate(
    compiled: mutating.CompiledMutatingPolicy,
    mutation: mutating.Mutation,
    param: JSONObject | None,
    atom: Atom,
    most_bytes: int,
    inputs: Inputs,
) -> Any:
    return mutating.mutate(compiled, mutation, inputs, param, atom, most_bytes)


def _invocation(matched: _Matched, param: JSONObject | None) -> Invocation:
    metadata = {} if param is None else param["metadata"]
    names = matched.policy["metadata"]["name"], matched.binding["metadata"]["name"]
    return Invocation(*names, metadata.get("namespace") or "", metadata.get("name") or "")


def _as_object(made: Any) -> JSONObject:
    """A deep copy of a mutation's result. Raises StatusError if it is no object or has no kind."""
    if not isinstance(made, dict):
        what = 'struct { APIVersion string "json:"apiVersion,omitempty""; Kind string "json:"kind,omitempty"" }'
        text = f"json: cannot unmarshal {json_kind(made)} into Go value of type {what}"
        raise errors.internal_error(f"couldn't get version/kind; json parse error: {text}")
    if not made.get("kind"):
        raise errors.internal_error(f"Object 'Kind' is missing in '{to_json(made)}'")
    copied: JSONObject = json_copy(made)
    if not isinstance(copied.get("metadata"), dict):
        copied["metadata"] = {}
    return copied
