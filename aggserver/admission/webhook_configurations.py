"""WebhookIndex: the webhooks of all configurations of one kind, in the order in which they are called, by resource.

A configuration is parsed when it changes, not with every request. Configurations are in the order of their names, and their
webhooks as written.
Pure. Source: k8s.io/apiserver pkg/admission/configuration/mutating_webhook_manager.go, pkg/admission/plugin/webhook/accessors.go,
pkg/admission/plugin/webhook/matchconditions/matcher.go, v0.36.3.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from aggserver.admission.chain import Attributes, Target
from aggserver.admission.matching import Criteria, Index
from aggserver.meta.json_types import JSONObject
from aggserver.webhook.config import ClientConfig, ServiceReference

__all__ = ["CompileConditions", "Conditions", "Configurations", "Entry", "Webhook", "WebhookIndex", "judge"]

# The API's default, if timeoutSeconds is not set.
_TIMEOUT_SECONDS = 10

# (attributes, the version that the webhook's rule names, the object and the old one in that version) -> for each condition
# whether it holds, or the error of its evaluation.
Conditions = Callable[[Attributes, Target, JSONObject | None, JSONObject | None], Awaitable[Sequence[bool | Exception]]]
# (the matchConditions of a webhook) -> what evaluates them. Called once for each webhook of a changed configuration.
CompileConditions = Callable[[Sequence[JSONObject]], Conditions]


class Configurations(Protocol):
    """Mutating- or ValidatingWebhookConfigurations as last known, as JSON with the API's defaults, in any order.

    generation: differs after each change. The objects are not changed in place.
    """

    @property
    def generation(self) -> int: ...

    def __iter__(self) -> Iterator[JSONObject]: ...


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook of a configuration.

    uid: unique among all webhooks, even if a configuration uses a name twice. versions: its admissionReviewVersions.
    side_effects: '' if not set. timeout: in seconds. conditions: None if it has none.
    """

    uid: str
    configuration: str
    name: str
    client: ClientConfig
    versions: tuple[str, ...]
    side_effects: str
    timeout: int
    fails_open: bool
    reinvocable: bool
    conditions: Conditions | None

    @property
    def may_dry_run(self) -> bool:
        return self.side_effects in ("None", "NoneOnDryRun")


class Entry(NamedTuple):
    """A webhook, and its position among all webhooks of its kind, for audit annotations."""

    position: int
    webhook: Webhook


_Parsed = tuple[tuple[Criteria, Webhook], ...]


class WebhookIndex:
    """Finds the webhooks for a resource. Follows `configurations`."""

    def __init__(self, configurations: Configurations, compile_conditions: CompileConditions) -> None:
        self._configurations = configurations
        self._compile = compile_conditions
        self._generation = -1
        self._parsed: dict[str, tuple[JSONObject, _Parsed]] = {}
        self._index = Index[Entry]()

    def of(self, attributes: Attributes) -> Sequence[tuple[Criteria, Entry]]:
        """The webhooks that may be called for requests of the resource, in the order in which they are called."""
        if self._generation != self._configurations.generation:
            self._rebuild()
        return self._index.of(attributes.resource, attributes.objects)

    def _rebuild(self) -> None:
        self._generation = self._configurations.generation
        before, self._parsed = self._parsed, {}
        entries: list[tuple[Criteria, Entry]] = []
        for configuration in sorted(self._configurations, key=lambda each: str(each["metadata"]["name"])):
            name = configuration["metadata"]["name"]
            known = before.get(name)
            parsed = known[1] if known is not None and known[0] is configuration else self._parse(configuration)
            self._parsed[name] = configuration, parsed
            entries += [(criteria, Entry(len(entries) + number, webhook)) for number, (criteria, webhook) in enumerate(parsed)]
        self._index = Index(entries)

    def _parse(self, configuration: Mapping[str, Any]) -> _Parsed:
        name = configuration["metadata"]["name"]
        times: dict[str, int] = {}
        found = []
        for webhook in configuration.get("webhooks") or ():
            number = times[webhook["name"]] = times.get(webhook["name"], -1) + 1
            uid = f"{name}/{webhook['name']}/{number}"
            found.append((Criteria.of_webhook(webhook), self._webhook(webhook, name, uid)))
        return tuple(found)

    def _webhook(self, webhook: Mapping[str, Any], configuration: str, uid: str) -> Webhook:
        conditions = webhook.get("matchConditions")
        return Webhook(
            uid=uid,
            configuration=configuration,
            name=webhook["name"],
            client=_client(webhook.get("clientConfig") or {}),
            versions=tuple(webhook.get("admissionReviewVersions") or ()),
            side_effects=webhook.get("sideEffects") or "",
            timeout=webhook.get("timeoutSeconds") or _TIMEOUT_SECONDS,
            fails_open=webhook.get("failurePolicy") == "Ignore",
            reinvocable=webhook.get("reinvocationPolicy") == "IfNeeded",
            conditions=self._compile(conditions) if conditions else None,
        )


def _client(config: Mapping[str, Any]) -> ClientConfig:
    service = config.get("service")
    return ClientConfig(
        url=config.get("url") or "",
        service=service
        and ServiceReference(service["namespace"], service["name"], service.get("path") or "", service.get("port") or 443),
        ca_bundle=base64.b64decode(config.get("caBundle") or ""),
    )


def judge(results: Sequence[bool | Exception], *, fails_open: bool) -> bool | str:
    """Whether matchConditions hold; an error text if the request is to be refused since some could not be evaluated.

    A condition that is false decides, whatever the results of the others.
    """
    if any(result is False for result in results):
        return False
    texts = list(dict.fromkeys(str(result) for result in results if isinstance(result, Exception)))
    if not texts:
        return True
    if fails_open:
        return False
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
