"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook: the plugins that ask webhooks about objects.

Mutating webhooks are called one after the other, each with the object as the previous ones left it; those with reinvocationPolicy
IfNeeded are called a second time if the object changed after their call. Validating ones are called at the same time. A webhook
whose rules name another version of the resource gets the object converted, and its changes are converted back. If a call fails,
the request is refused, or with failurePolicy Ignore goes on without the webhook.

An answer is bounded in bytes, and so is the number of its patch's operations; large ones are decoded and applied in a thread.
Source: k8s.io/apiserver pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go, .../mutating/reinvocationcontext.go,
.../generic/webhook.go, pkg/admission/conversion.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from aggserver.admission import patching, review
from aggserver.admission.chain import Attributes, Target
from aggserver.admission.matching import Criteria, NamespaceLabels, is_exempt, matches
from aggserver.admission.observer import NOBODY, AdmissionObserver
from aggserver.admission.review import Answer
from aggserver.admission.webhook_configurations import Entry, Webhook, WebhookIndex, judge
from aggserver.meta import codec, errors
from aggserver.meta.errors import StatusError
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.meta.names import qualified_name
from aggserver.webhook.answers import WebhookError
from aggserver.webhook.config import ClientConfig
from aggserver.workers import OBJECTS

__all__ = ["MutatingWebhooks", "ValidatingWebhooks", "WebhookCaller", "WebhookCalls"]

# Of an answer. A patch may replace an object of 3 MiB, in base64. A validating webhook sends only texts.
MAX_MUTATING_BYTES = 8 * 2**20
MAX_VALIDATING_BYTES = 2**20

# Failing webhooks that are remembered as logged. When there are more, as configurations come and go, all are logged once more.
MAX_FAILING = 1000

# Above this many bytes, answers and objects are decoded, patched and encoded in a thread, since that takes milliseconds.
_LONG = 128 * 1024

log = logging.getLogger("aggserver.webhooks")

T = TypeVar("T")


class WebhookCaller(Protocol):
    async def call(self, config: ClientConfig, body: bytes, *, timeout: float, max_bytes: int) -> bytes:  # noqa: ASYNC109
        """The answer to a POST of `body`. timeout: in seconds. Raises WebhookError."""


class _CallError(Exception):
    """The webhook gave no valid answer, so its failurePolicy applies. code: of HTTP, for metrics."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


class _Denied(Exception):
    """The webhook refused the request."""

    def __init__(self, status: StatusError) -> None:
        super().__init__(status.message)
        self.status = status


class _View:
    """An object and the old one in the version that a webhook asked for.

    `_base` is the object in the requested version. Webhooks change `obj`; while `dirty`, the changes are not yet in `_base`.
    """

    def __init__(self, attributes: Attributes, base: JSONObject | None, old: JSONObject | None) -> None:
        self._attributes = attributes
        self._base = base
        self._old = old
        # The version of `_base`: mostly the request's, but changes of metadata alone are made in the stored version.
        self._home = attributes.object_version if base is None else base["apiVersion"]
        self._version = ""
        self.obj = base
        self.old = old
        self.dirty = False
        # By version, since several webhooks are sent the same. Those of `obj` are dropped when it changes.
        self._encoded: dict[tuple[str, bool], bytes] = {}

    async def to(self, api_version: str) -> None:
        """Convert both to another version. Raises StatusError."""
        if api_version == self._version:
            return
        if self.obj is not None:
            await self.settle()
        self.obj = await self._converted(self._base, api_version)
        self.old = await self._converted(self._old, api_version)
        self._version = api_version

    async def settle(self) -> None:
        """Convert the changes of webhooks to the requested version, into `_base`. Raises StatusError."""
        if not self.dirty or self._base is None or self.obj is None:
            return
        made = await self._attributes.objects.convert(self.obj, self._home)
        self._base.clear()
        self._base.update(made)
        self.dirty = False

    def change(self, obj: JSONObject) -> None:
        self.obj = obj
        self.dirty = True
        self._encoded.pop((self._version, False), None)

    def encoded(self, target: Target) -> tuple[bytes, bytes]:
        """The object and the old one, as they are sent to webhooks."""
        return self._bytes(target, self.obj, is_old=False), self._bytes(target, self.old, is_old=True)

    def _bytes(self, target: Target, obj: JSONObject | None, *, is_old: bool) -> bytes:
        key = target.api_version, is_old
        if key not in self._encoded:
            self._encoded[key] = review.encoded(obj, target)
        return self._encoded[key]

    async def _converted(self, obj: JSONObject | None, api_version: str) -> JSONObject | None:
        if obj is None or obj.get("apiVersion") == api_version:
            return obj
        return await self._attributes.objects.convert(obj, api_version)


class WebhookCalls:
    """Calls webhooks. Both plugins share one instance.

    new_uid: returns a uid for each AdmissionReview. namespace_labels: for namespaceSelectors.
    """

    def __init__(
        self,
        caller: WebhookCaller,
        namespace_labels: NamespaceLabels,
        new_uid: Callable[[], str],
        observer: AdmissionObserver = NOBODY,
    ) -> None:
        self._caller = caller
        self._namespace_labels = namespace_labels
        self._new_uid = new_uid
        self.observer = observer
        self._failing: set[str] = set()  # uids of webhooks that were passed over at their last call

    async def target(
        self,
        kind: str,
        criteria: Criteria,
        webhook: Webhook,
        attributes: Attributes,
        obj: JSONObject | None,
        old: JSONObject | None,
        viewed: Callable[[str], Awaitable[_View]],
    ) -> Target | None:
        """The version that the webhook's rule names; None if it must not be called. viewed: converts to a version.

        Raises StatusError.
        """
        equivalents = attributes.objects.equivalents(attributes.subresource)
        target = await matches(criteria, attributes, obj, old, equivalents, self._namespace_labels)
        if target is None or webhook.conditions is None:
            return target
        view = await viewed(target.api_version)
        results = await webhook.conditions(attributes, target, view.obj, view.old)
        for result in results:
            if isinstance(result, Exception):
                self.observer.conditions_failed(webhook.name, kind, attributes.operation)
        verdict = judge(results, fails_open=webhook.fails_open)
        if isinstance(verdict, str):
            info = attributes.resource
            raise errors.forbidden(info.group, info.resource, attributes.name, verdict)
        if not verdict:
            self.observer.conditions_excluded(webhook.name, kind, attributes.operation)
            return None
        return target

    async def ask(self, webhook: Webhook, attributes: Attributes, target: Target, view: _View, *, mutating: bool) -> Answer:
        """The answer of a webhook that allows the request. Raises _CallError, _Denied, and StatusError."""
        if attributes.dry_run and not webhook.may_dry_run:
            if not webhook.side_effects:
                raise _CallError("Webhook SideEffects is nil", 400)
            raise review.dry_run_unsupported(webhook.name)
        try:
            version = review.version_of(webhook.versions)
        except ValueError as error:
            raise _CallError(f"could not create admission objects: {error}", 400) from None
        uid = self._new_uid()
        body = review.body(version, uid, attributes, target, *view.encoded(target))
        answer = await self._answer(webhook, attributes, body, version, uid, mutating=mutating)
        for key, text in answer.audit_annotations.items():
            if not qualified_name(f"{webhook.name}/{key}"):
                attributes.audit_annotations.setdefault(f"{webhook.name}/{key}", text)
        attributes.warnings.extend(answer.warnings)
        if not answer.allowed:
            raise _Denied(review.denial(webhook.name, answer.result))
        return answer

    async def _answer(
        self, webhook: Webhook, attributes: Attributes, body: bytes, version: str, uid: str, *, mutating: bool
    ) -> Answer:
        if not webhook.client.url and webhook.client.service is None:
            why = review.why_failed(webhook.name, "webhook configuration must have either service or URL")
            raise _CallError(f"could not get REST client: {why}", 500)
        # Whole seconds, since the timeout is sent to the webhook. The request's own deadline ends the call, too.
        left = attributes.deadline - asyncio.get_running_loop().time()
        timeout = webhook.timeout if left >= webhook.timeout else max(math.ceil(left), 1)
        limit = MAX_MUTATING_BYTES if mutating else MAX_VALIDATING_BYTES
        try:
            answer = await self._caller.call(webhook.client, body, timeout=timeout, max_bytes=limit)
            return await _aside(attributes, len(answer), lambda: review.read(answer, version, uid, mutating=mutating))
        except WebhookError as error:
            raise _CallError(f"failed to call webhook: {error}", error.code) from error
        except review.UnreadableAnswer as error:
            raise _CallError(f"failed to call webhook: {error}", 503) from error
        except review.InvalidAnswer as error:
            raise _CallError(f"received invalid webhook response: {error}", 503) from error

    def failed(self, kind: str, webhook: Webhook, attributes: Attributes, error: Exception, seconds: float) -> StatusError | None:
        """Counts a call that did not allow the request. Returns the error to raise, or None to go on without the webhook."""
        name, operation, observer = webhook.name, attributes.operation, self.observer
        if isinstance(error, _CallError):
            observer.webhook(name, kind, operation, seconds, error.code, rejected=not webhook.fails_open)
            if webhook.fails_open:
                observer.webhook_failed_open(name, kind)
                if webhook.uid not in self._failing:
                    if len(self._failing) >= MAX_FAILING:
                        self._failing.clear()
                    self._failing.add(webhook.uid)
                    log.warning("webhook %s of %s fails, and is ignored: %s", name, webhook.configuration, error)
                return None
            observer.webhook_rejection(name, kind, operation, "calling_webhook_error", error.code)
            return review.failure(name, str(error))
        if isinstance(error, _Denied):
            code = error.status.code
            observer.webhook_rejection(name, kind, operation, "no_error", code)
            observer.webhook(name, kind, operation, seconds, code, rejected=True)
            return error.status
        assert isinstance(error, StatusError)
        observer.webhook_rejection(name, kind, operation, "apiserver_internal_error", 0)
        observer.webhook(name, kind, operation, seconds, 0, rejected=True)
        return error

    def allowed(self, kind: str, webhook: Webhook, attributes: Attributes, seconds: float) -> None:
        """Counts a call whose answer allows the request."""
        self.observer.webhook(webhook.name, kind, attributes.operation, seconds, 200, rejected=False)
        if webhook.uid in self._failing:
            self._failing.discard(webhook.uid)
            log.info("webhook %s of %s answers again", webhook.name, webhook.configuration)


async def _aside(attributes: Attributes, size: int, function: Callable[[], T]) -> T:
    """Call the function, in a thread if it works on many bytes. size: in bytes."""
    return await OBJECTS.run(attributes.user.name, size, function) if size > _LONG else function()


# --- mutating ---


class _Memory:
    """What the plugin remembers about one object between the rounds, as uids of webhooks.

    invoked: those called so far with reinvocationPolicy IfNeeded. again: those to call in the second round.
    """

    __slots__ = ("again", "invoked", "output")

    def __init__(self) -> None:
        self.invoked: set[str] = set()
        self.again: set[str] = set()
        self.output: bytes | None = None

    def has_seen(self, obj: JSONObject | None) -> bool:
        """Whether the object is as the webhooks of the first round left it."""
        return self.output is not None and codec.same(codec.decode_stored(self.output), obj)

    def require(self) -> None:
        self.again |= self.invoked
        self.invoked = set()


def _concerns(index: WebhookIndex, attributes: Attributes) -> bool:
    found = index.of(attributes)
    return any(criteria.may_concern(attributes.operation) for criteria, _ in found)


class MutatingWebhooks:
    """The plugin MutatingAdmissionWebhook."""

    name = "MutatingAdmissionWebhook"

    def __init__(self, index: WebhookIndex, calls: WebhookCalls) -> None:
        self._index = index
        self._calls = calls

    def concerns(self, attributes: Attributes) -> bool:
        return _concerns(self._index, attributes)

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        found = self._index.of(attributes)
        if not found or is_exempt(attributes):
            return False
        reinvocation = attributes.reinvocation
        memory = reinvocation.state.setdefault(self, _Memory())
        if reinvocation.again and memory.invoked and not memory.has_seen(obj):
            memory.require()  # other plugins have changed it
        view = _View(attributes, obj, old)
        changed = False
        for criteria, entry in found:
            changed = await self._consider(criteria, entry, attributes, view, memory) or changed
        await view.settle()
        if memory.invoked and not reinvocation.again:
            memory.output = codec.encode_json(obj)
        return changed

    async def _consider(self, criteria: Criteria, entry: Entry, attributes: Attributes, view: _View, memory: _Memory) -> bool:
        """Call a webhook if it matches. Returns whether it gave a patch. Raises StatusError."""

        async def viewed(api_version: str) -> _View:
            try:
                await view.to(api_version)
            except StatusError as error:  # which upstream wraps twice
                raise errors.internal_error(errors.internal_error(error.message).message) from error
            return view

        webhook, reinvocation = entry.webhook, attributes.reinvocation
        target = await self._calls.target("admit", criteria, webhook, attributes, view.obj, view.old, viewed)
        if target is None or (reinvocation.again and webhook.uid not in memory.again):
            return False
        await viewed(target.api_version)
        loop = asyncio.get_running_loop()
        started = loop.time()
        round_ = f"round_{int(reinvocation.again)}_index_{entry.position}"
        patched = changed = False
        try:
            answer = await self._calls.ask(webhook, attributes, target, view, mutating=True)
            patched, changed = await _patch(webhook, answer, view, attributes, target)
            if patched and attributes.audits_objects:
                attributes.audit_annotations[f"patch.webhook.admission.k8s.io/{round_}"] = _told(webhook, answer.patch)
            self._calls.allowed("admit", webhook, attributes, loop.time() - started)
        except (_CallError, _Denied, StatusError) as error:
            refusal = self._calls.failed("admit", webhook, attributes, error, loop.time() - started)
            if refusal is not None:
                raise refusal from error
            attributes.audit_annotations[f"failed-open.mutation.webhook.admission.k8s.io/{round_}"] = webhook.name
        finally:
            annotation = {"configuration": webhook.configuration, "webhook": webhook.name, "mutated": changed}
            attributes.audit_annotations[f"mutation.webhook.admission.k8s.io/{round_}"] = codec.encode_json(annotation).decode()
        if changed:
            memory.require()
            reinvocation.wanted = True
        if webhook.reinvocable:
            memory.invoked.add(webhook.uid)
        return patched


async def _patch(webhook: Webhook, answer: Answer, view: _View, attributes: Attributes, target: Target) -> tuple[bool, bool]:
    """Apply a webhook's patch to the view. Returns whether there was one, and whether it changed the object.

    Raises _CallError, and StatusError for a patch that does not apply or makes no object.
    """
    if not answer.patch:
        return False, False
    size = len(answer.patch)
    try:
        operations = await _aside(attributes, size, lambda: patching.parse(answer.patch))
    except patching.InvalidPatch as error:
        raise _CallError(f"received undecodable patch in webhook response: {error}", 503) from error
    if not operations:
        return False, False
    obj = view.obj
    if obj is None:
        text = (
            f"admission webhook {quote(webhook.name)} attempted to modify the object, which is not supported for this operation"
        )
        raise errors.internal_error(text)
    if answer.patch_type != review.JSON_PATCH:
        raise _CallError(f"unsupported patch type {quote(answer.patch_type)}", 400)

    def apply() -> tuple[JSONObject, bool]:
        made = patching.apply(obj, operations)
        changed = not codec.same(obj, made)
        attributes.objects.accept(made)
        return made, changed

    try:
        made, changed = await _aside(attributes, size + len(view.encoded(target)[0]), apply)
    except ValueError as error:
        raise errors.internal_error(str(error)) from error
    view.change(made)
    return True, changed


def _told(webhook: Webhook, patch: bytes) -> str:
    """What the audit tells of a patch."""
    operations = [dict(sorted(operation.items())) for operation in codec.decode_json(patch)]
    annotation = {"configuration": webhook.configuration, "webhook": webhook.name, "patch": operations}
    return codec.encode_json({**annotation, "patchType": review.JSON_PATCH}).decode()


# --- validating ---


class ValidatingWebhooks:
    """The plugin ValidatingAdmissionWebhook."""

    name = "ValidatingAdmissionWebhook"

    def __init__(self, index: WebhookIndex, calls: WebhookCalls) -> None:
        self._index = index
        self._calls = calls

    def concerns(self, attributes: Attributes) -> bool:
        return _concerns(self._index, attributes)

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        found = self._index.of(attributes)
        if not found or is_exempt(attributes):
            return
        views: dict[str, _View] = {}

        async def viewed(api_version: str) -> _View:
            if api_version not in views:
                view = _View(attributes, obj, old)
                try:
                    await view.to(api_version)
                except StatusError as error:
                    raise errors.internal_error(error.message) from error
                views[api_version] = view
            return views[api_version]

        relevant: list[tuple[Webhook, Target, _View]] = []
        for criteria, (_, webhook) in found:
            target = await self._calls.target("validating", criteria, webhook, attributes, obj, old, viewed)
            if target is not None:
                relevant.append((webhook, target, await viewed(target.api_version)))
        # All are awaited, and the first to refuse gives the error, as upstream.
        refusals: list[StatusError] = []
        await asyncio.gather(*(self._call(*each, number, attributes, refusals) for number, each in enumerate(relevant)))
        if refusals:
            raise refusals[0]

    async def _call(
        self, webhook: Webhook, target: Target, view: _View, number: int, attributes: Attributes, refusals: list[StatusError]
    ) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            await self._calls.ask(webhook, attributes, target, view, mutating=False)
            self._calls.allowed("validating", webhook, attributes, loop.time() - started)
        except (_CallError, _Denied, StatusError) as error:
            refusal = self._calls.failed("validating", webhook, attributes, error, loop.time() - started)
            if refusal is not None:
                refusals.append(refusal)
            else:
                key = f"failed-open.validating.webhook.admission.k8s.io/round_0_index_{number}"
                attributes.audit_annotations[key] = webhook.name
