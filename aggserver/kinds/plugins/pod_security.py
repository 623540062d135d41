"""PodSecurity: the labels of a namespace say which Pods may be made in it, and of which their makers are warned.

A Pod that violates what is enforced gets 403; for workloads there are only warnings. A namespace whose labels become stricter is
compared with the Pods in it. Without labels, everything is allowed.
Source: k8s.io/pod-security-admission admission/admission.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import zip_longest
from typing import Any

from aggserver.admission.chain import Attributes
from aggserver.informers.informer import ALL, CONTROLLER
from aggserver.kinds.plugins import pod_security_levels
from aggserver.kinds.plugins.pod_security_levels import PREFIX, Standard, detail, evaluate, is_stricter, policy_of, reasons
from aggserver.meta import errors
from aggserver.meta.errors import StatusError
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.registry.rest import Context
from aggserver.registry.store import Store

__all__ = ["NamespaceSecurity", "PodSecurity"]

_NO_POLICY = pod_security_levels.NamespacePolicy()
# The Pods of a namespace that are compared with new labels, as upstream.
_MAX_PODS = 3000
# The Pods that are compared before others get their turn.
_AT_ONCE = 50

# Returns the labels of a namespace that begin with a prefix.
Labels = Callable[[str, str], Awaitable[Mapping[str, str]]]


class PodSecurity:
    """The decision about Pods and workloads.

    labels: returns the labels of a namespace whose names begin with a text, {} if there is no such namespace.
    """

    def __init__(self, labels: Labels) -> None:
        self._labels = labels

    async def check(self, attributes: Attributes, obj: JSONObject, old: JSONMapping | None, template: JSONMapping) -> None:
        """template: the Pod, or its template in the workload `obj`. Raises StatusError 403; warnings go to the attributes."""
        labels = await self._labels(attributes.namespace, PREFIX)
        if not labels:
            return
        policy, problems = policy_of(labels)
        is_pod = template is obj
        if policy == _NO_POLICY and not problems:
            return
        if is_pod and old is not None and not _has_new_images(obj["spec"], old["spec"]):
            return
        annotations, spec = (template.get("metadata") or {}).get("annotations") or {}, template.get("spec") or {}
        notes = attributes.audit_annotations
        if problems:
            notes[f"{PREFIX}error"] = f"Failed to parse policy: {_joined([str(each) for each in problems])}"
        known: dict[Standard, Any] = {}

        def violations(standard: Standard) -> Any:
            if standard not in known:
                known[standard] = evaluate(standard, annotations, spec)
            return known[standard]

        refusal: StatusError | None = None
        if is_pod:
            notes[f"{PREFIX}enforce-policy"] = str(policy.enforce)
            if found := violations(policy.enforce):
                why = f'violates PodSecurity "{policy.enforce}": {detail(found)}'
                info = attributes.resource
                refusal = errors.forbidden(info.group, info.resource, attributes.name, why)
        if found := violations(policy.audit):
            notes[f"{PREFIX}audit-violations"] = f'would violate PodSecurity "{policy.audit}": {detail(found)}'
        if refusal is not None:
            raise refusal
        if found := violations(policy.warn):
            attributes.warnings.append(f'would violate PodSecurity "{policy.warn}": {detail(found)}')


def _joined(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _has_new_images(spec: JSONMapping, before: JSONMapping) -> bool:
    """Whether an update has to be looked at: it adds or removes containers, or changes their images."""
    for member in ("containers", "initContainers"):
        pairs = zip_longest(spec.get(member) or (), before.get(member) or ())
        if any(now is None or was is None or now.get("image") != was.get("image") for now, was in pairs):
            return True
    known = {each.get("name"): each.get("image") for each in before.get("ephemeralContainers") or ()}
    ephemeral = spec.get("ephemeralContainers") or ()
    return any(each.get("name") not in known or known[each.get("name")] != each.get("image") for each in ephemeral)


class NamespaceSecurity:
    """The plugin for namespaces. pods: returns the store of Pods."""

    def __init__(self, pods: Callable[[], Store]) -> None:
        self._pods = pods

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if obj is None:
            return
        labels, before = (_labels_of(each) for each in (obj, old or {"metadata": {}}))
        if labels == before:
            return
        policy, problems = policy_of(labels)
        was, old_problems = policy_of(before)
        if problems and (old is None or list(map(str, problems)) != list(map(str, old_problems))):
            raise errors.invalid("", "Namespace", attributes.name, problems)
        now, then = policy.enforce, was.enforce
        if old is None or now == then or now.level == "privileged":
            return
        if now.version == then.version and not is_stricter(now.level, then.level):
            return
        attributes.warnings.extend(await self._violations(attributes.name, now))

    async def _violations(self, namespace: str, standard: Standard) -> list[str]:
        """Warnings about the Pods that are there. Of Pods with the same controller, all but one come last."""
        first: list[JSONObject] = []
        others: list[JSONObject] = []
        controllers = set[str | None]()
        total = 0
        for total, found in enumerate((await self._pods().list(Context(CONTROLLER, namespace), ALL)).items, 1):
            if total % _AT_ONCE == 0:
                await asyncio.sleep(0)
            pod = found.decoded()
            uid = next((each["uid"] for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")), None)
            part = others if uid in controllers else first
            if len(part) < _MAX_PODS:
                part.append(pod)
            if uid is not None and len(controllers) < _MAX_PODS:
                controllers.add(uid)
        checked = [*first, *others][:_MAX_PODS]
        names: dict[str, list[str]] = {}
        for number, pod in enumerate(checked, 1):
            if violations := evaluate(standard, pod["metadata"].get("annotations") or {}, pod["spec"]):
                names.setdefault(reasons(violations), []).append(str(pod["metadata"]["name"]))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        said = []
        if len(checked) < total:
            said.append(f"new PodSecurity enforce level only checked against the first {len(checked)} of {total} existing pods")
        if names:
            level = quote(str(standard))
            said.append(f"existing pods in namespace {quote(namespace)} violate the new PodSecurity enforce level {level}")
        return [*said, *sorted(f"{_some_of(pods)}: {why}" for why, pods in names.items())]


def _labels_of(namespace: JSONMapping) -> dict[str, str]:
    labels = namespace["metadata"].get("labels") or {}
    return {name: value for name, value in labels.items() if name.startswith(PREFIX)}


def _some_of(pods: list[str]) -> str:
    more = len(pods) - 1
    return min(pods) if not more else f"{min(pods)} (and {more} other pod{'s' if more > 1 else ''})"
