"""Histories against both servers: the same requests to each, and whether they answer the same after each step.

Compared are code, warnings and the body but for the order of its members, managedFields and times included; but uids are replaced
by a word, and resourceVersions by whether they are the one from before the step. Times are the same because both servers use this
machine's clock, to the second: no step begins when a second is about to end, and a history in which one was overtaken by the next
second ends there.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.comparison import Seen, without_order
from tests.integration.raw import Answer, Client
from tests.integration.server import eventually
from tests.owners.schemas import GROUP, Definition
from tests.owners.steps import APPLY, CHANGE, NAMESPACE, Step, Story, url

__all__ = ["Difference", "Server", "Sides", "connected", "play"]

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# What a step must have left of the current second, which is more than one usually takes.
_MARGIN = 0.06
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_GIVEN_UIDS = ("11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000")
_NO_UID = "44444444-0000-4000-8000-000000000000"
# In texts, quotes have backslashes before them.
_REVISION = re.compile(r'(\\*"resourceVersion\\*": ?\\*")(\d+)')
_UNDECLARED = "field not declared in schema"
# Where the list of errors begins in a text.
_TYPED_ERROR = re.compile(r"errors:\n|\S+: field not declared in schema")


@dataclass
class _Known:
    """What one server has made of an object: what the marks of steps stand for."""

    revision: str = "1"
    stale: str = "1"
    uid: str = _NO_UID
    managed: str = "[]"

    def learn(self, obj: dict[str, Any] | None) -> None:
        metadata = (obj or {}).get("metadata", {})
        revision = metadata.get("resourceVersion", "1")
        if revision != self.revision:
            self.stale, self.revision = self.revision, revision
        self.uid = metadata.get("uid", _NO_UID)
        self.managed = json.dumps(metadata.get("managedFields", []))

    def fill(self, text: str, name: str) -> str:
        text = text.replace('"$managed"', self.managed).replace("$name", name)
        return text.replace("$rv", self.revision).replace("$stale", self.stale).replace("$uid", self.uid)

    def comparable(self, text: str, name: str) -> str:
        """Without what differs from server to server."""
        text = _REVISION.sub(lambda match: match[1] + ("<same>" if match[2] == self.revision else "<other>"), text)
        text = _UID.sub(lambda match: match[0] if match[0] in _GIVEN_UIDS else "<uid>", text)
        text = re.sub(r"(in precondition: |in object meta: )\d+", r"\1<revision>", text.replace(name, "$name"))
        # Keys of etcd stand in errors with the prefix that kube-apiserver has for all.
        return text.replace("Key: /registry/", "Key: /")


@dataclass(frozen=True)
class Difference:
    """The step that the servers answered differently, and the steps before it."""

    definition: Definition
    steps: tuple[Step, ...]
    upstream: str
    ours: str

    @property
    def kind(self) -> str:
        """The same text for differences that are likely of one cause."""
        words = [
            re.sub(r"[\d\[\]]+", "", re.sub(r'"[^"]*"', "", text))[:60] for text in _first_difference(self.upstream, self.ours)
        ]
        return f"{self.steps[-1].method} {self.upstream[:3]} {self.ours[:3]} {words}"

    def __str__(self) -> str:
        listed = "\n".join(map(str, self.steps))
        left, right = _first_difference(self.upstream, self.ours)
        return (
            f"{listed}\n-- kube-apiserver: {self.upstream}\n-- aggserver:      {self.ours}\n"
            f"-- they part at: {left!r} and {right!r}"
        )


def _first_difference(left: str, right: str) -> tuple[str, str]:
    at = next((at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), min(len(left), len(right)))
    begin = max(0, at - 40)
    return left[begin : at + 80], right[begin : at + 80]


class Server:
    """One of the two."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def send(self, step: Step, name: str, known: _Known) -> Answer:
        body = None
        if step.body is not None:
            # In order, since what a patch brings is shown in errors as it came.
            body = known.fill(json.dumps(step.body, sort_keys=True), name).encode()
        return self.client.request(step.method, known.fill(step.path, name), step.headers, body)

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        headers = {"content-type": "application/json"} if body is not None else {}
        return self.client.request(method, path, headers, None if body is None else json.dumps(body).encode())

    def define(self, manifest: dict[str, Any]) -> Answer:
        """Makes a definition, or changes it to this."""
        answer = self.ask("POST", _DEFINITIONS, manifest)
        if answer.status != 409:
            return answer
        where = f"{_DEFINITIONS}/{manifest['metadata']['name']}"
        revision = json.loads(self.ask("GET", where).body)["metadata"]["resourceVersion"]
        metadata = {**manifest["metadata"], "resourceVersion": revision}
        return self.ask("PUT", where, {**manifest, "metadata": metadata})

    def forget(self, definition: Definition) -> None:
        """Takes finalizers off all objects, without which the definition would never go, and deletes it."""
        for version in ("m1", "m2"):
            where = url(definition.plural, version, name="")
            answer = self.ask("GET", where)
            for obj in json.loads(answer.body)["items"] if answer.status == 200 else ():
                if obj["metadata"].get("finalizers"):
                    headers = {"content-type": "application/merge-patch+json"}
                    target = f"{where}/{obj['metadata']['name']}"
                    self.client.request("PATCH", target, headers, b'{"metadata":{"finalizers":null}}')
        self.ask("DELETE", f"{_DEFINITIONS}/{definition.plural}.{GROUP}")


@dataclass
class Sides:
    """kube-apiserver and aggserver, asked at the same time."""

    upstream: Server
    ours: Server
    pool: ThreadPoolExecutor
    _names: int = 0
    _defined: dict[str, bool] = field(default_factory=dict)

    def both(self, do: Callable[[Server], Any]) -> tuple[Any, Any]:
        upstream, ours = self.pool.map(do, (self.upstream, self.ours))
        return upstream, ours

    def name(self) -> str:
        self._names += 1
        return f"h{self._names}-{time.time_ns() % 10**9}x"

    def define(self, definition: Definition, *, changed: bool) -> None:
        """Sees to it that both have this definition, as it is before its change or after. Raises AssertionError."""
        if self._defined.get(definition.plural) == changed:
            return
        manifest = definition.after if changed else definition.before
        marker = definition.marker_after if changed else definition.marker_before
        upstream, ours = self.both(lambda side: side.define(manifest))
        assert upstream.status < 300, upstream.body
        assert ours.status < 300, ours.body
        where = url(definition.plural, marker, name="")
        for side in (self.upstream, self.ours):
            eventually(lambda: side.ask("GET", where).status == 200, f"{where} is served")  # noqa: B023
        # kube-apiserver may for a moment go on with what it had made of the definition before.
        time.sleep(0.1)
        self._defined[definition.plural] = changed

    def forget(self, definition: Definition) -> None:
        self.both(lambda side: side.forget(definition))
        self._defined.pop(definition.plural, None)


def _without_chance(message: str) -> str:
    """Upstream walks a map in any order to find what does not fit a type, and ends at the first field that is not declared."""
    if _UNDECLARED in message:
        return _TYPED_ERROR.split(message)[0] + _UNDECLARED
    before, between, errors = message.partition("errors:\n")
    return before + between + "\n".join(sorted(errors.split("\n")))


def _sorted(value: Any) -> Any:
    """Members in order, as aggserver does not write them; those of fieldsV1 stay as they are."""
    if isinstance(value, dict):
        if value.get("kind") == "Status":
            value["message"] = _without_chance(value.get("message", ""))
        return {name: value[name] if name == "fieldsV1" else _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


class Run:
    """One history on both servers."""

    def __init__(self, sides: Sides, definition: Definition) -> None:
        self.definition = definition
        self.steps: list[Step] = []
        self.blurred = False
        self.now: dict[str, Any] | None = None
        self.accepted = False
        self._sides = sides
        self._name = sides.name()
        self._known = (_Known(), _Known())

    def take(self, step: Step, version: str) -> Difference | None:
        """Sends a step. Reads the object in `version` afterwards, but for most steps whose answer has it."""
        self.steps.append(step)
        if step is CHANGE:
            self._sides.define(self.definition, changed=True)
            return None
        read = Step("GET", url(self.definition.plural, version), {"accept": "application/json"})
        always = len(self.steps) % 3 == 0 or step.method == "DELETE" or "/scale" in step.path or "dryRun" in step.path
        if (left := 1 - time.time() % 1) < _MARGIN:
            time.sleep(left)
        began = int(time.time())
        upstream, ours = self._sides.pool.map(lambda which: self._ask(which, step, read, always=always), (0, 1))
        if int(time.time()) != began:
            self.blurred = True
        if not self._agree(upstream[0], ours[0]):
            return self._difference(upstream[0], ours[0])
        if not self._agree(upstream[1], ours[1]):
            return self._difference(f"then read in {version}: {upstream[1]}", f"then read in {version}: {ours[1]}")
        self.now = upstream[2]
        self.accepted = upstream[0].startswith("2")
        return None

    def _ask(self, which: int, step: Step, read: Step, *, always: bool) -> tuple[str, str, Any]:
        """(the answer, what is read then or '', the object as it is now with `$name`, None where there is none)."""
        side, known = (self._sides.upstream, self._sides.ours)[which], self._known[which]
        written = side.send(step, self._name, known)
        then = side.send(read, self._name, known) if always or written.status >= 300 else None
        texts = [self._comparable(answer, known) if answer else "" for answer in (written, then)]
        newest = then or written
        obj = json.loads(newest.body) if newest.status < 300 else None
        known.learn(obj)
        return texts[0], texts[1], obj and json.loads(json.dumps(obj).replace(self._name, "$name"))

    def _agree(self, upstream: str, ours: str) -> bool:
        """Whether two answers are the same.

        kube-apiserver stores what an apply made as it is, with nulls that no read shows, and the next write that changes nothing
        is one to it, for these go. Here they are not stored.
        """
        if upstream.startswith("500 ") and ours.startswith("500 ") and "panic" not in ours and self._owned_in_versions() > 1:
            # Upstream walks a map of the owners, and answers with the first that can't be converted.
            return True
        applied = any(step.headers.get("content-type") == APPLY for step in self.steps)
        return upstream == ours or (applied and upstream.replace('"<other>"', '"<same>"') == ours)

    def _owned_in_versions(self) -> int:
        entries = (self.now or {}).get("metadata", {}).get("managedFields", ())
        return len({entry["apiVersion"] for entry in entries})

    def _comparable(self, answer: Answer, known: _Known) -> str:
        text = answer.body.decode("utf-8", "replace").strip()
        if text.startswith("{"):
            text = json.dumps(_sorted(without_order(Seen(answer.status, {}, "", json.loads(text))).body))
        warnings = answer.headers.get("warning", [])
        return known.comparable(f"{answer.status} {text} {warnings}", self._name)

    def _difference(self, upstream: str, ours: str) -> Difference:
        return Difference(self.definition, tuple(self.steps), upstream, ours)


def play(sides: Sides, definition: Definition, stories: Sequence[Story], rounds: int) -> tuple[list[Difference], int]:
    """Goes on with all stories in turn, `rounds` steps each; half way the definition changes. Returns (differences, steps)."""
    runs = [(story, Run(sides, definition)) for story in stories]
    found: list[Difference] = []
    count = 0
    for number in range(rounds):
        if number == rounds // 2:
            for story, run in runs:
                run.take(CHANGE, "")
                story.without_lost_version()
        left = []
        for story, run in runs:
            difference = run.take(story.next(), story.version())
            count += 1
            if difference is not None and not run.blurred:
                found.append(difference)
            elif difference is None and not run.blurred:
                story.answered(run.now, accepted=run.accepted)
                left.append((story, run))
        runs = left
    return found, count


def replay(sides: Sides, definition: Definition, steps: Iterable[Step], pause: float = 0) -> Difference | None:
    """The same steps on a new object. Raises Blurred."""
    sides.define(definition, changed=False)
    run = Run(sides, definition)
    for step in steps:
        version = step.path.split("/")[3] if step.path else ""
        difference = run.take(step, version if version in definition.versions else "v1")
        if run.blurred:
            raise Blurred
        if difference is not None:
            return difference
        time.sleep(pause)
    return None


class Blurred(Exception):
    """A second ended within a step, so that its times say nothing."""


@contextmanager
def connected(upstream: Path, ours: Path) -> Iterator[Sides]:
    """upstream, ours: kubeconfigs. Makes the namespace of all histories, which stays."""
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(2))
        servers = [Server(stack.enter_context(Client(kubeconfig))) for kubeconfig in (upstream, ours)]
        sides = Sides(servers[0], servers[1], pool)
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        sides.both(lambda side: side.ask("POST", "/api/v1/namespaces", made))
        yield sides
