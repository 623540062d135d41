"""One request to two servers, and whether they said the same.

A `Case` is a short sequence of requests with one object of its own; both servers get it, each with its own uids and
resourceVersions filled in. What is compared is the whole answer as a client sees it: code, media type, the headers that clients
read, and the body, in which everything that differs from server to server (uids, times, revisions, tokens) is replaced by a word
for it. Cases are in the modules `cases_*`, which make them with `ask` and the shorthands here; `test_same_answers.py` runs them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import yaml

from tests.integration import protobuf
from tests.integration.raw import Answer, Client

__all__ = [
    "APPLY_PATCH",
    "CONTROLLERS",
    "GROUP",
    "JSON_PATCH",
    "MERGE_PATCH",
    "Ask",
    "Case",
    "Cases",
    "Seen",
    "ask",
    "beacon",
    "comparable",
    "delete",
    "get",
    "make",
    "patch",
    "path",
    "play",
    "post",
    "put",
    "thing",
    "without_order",
]

GROUP = "compare.example.com"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
# Managers of what the two servers write on their own.
CONTROLLERS = ("aggserver", "kube-apiserver", "kube-controller-manager")

_HEADERS = ("content-type", "warning", "retry-after", "allow", "cache-control", "x-content-type-options")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# What upstream tells beside our words.
_ONE_SIDED = re.compile(r"(?<=Key: )/registry")
# Of objects that stand in texts.
_QUOTED = ((re.compile(r'("resourceVersion": ?)"\d+"'), r'\1"<revision>"'),)
_GENERATED = re.compile(r"([Gg]enerated-|widgets-|kube-api-access-|g{58})[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_NUMBERS = re.compile(r"(current: |record \(|precondition \(|resource version: \d+ \()\d+")
_SELF_TYPE = re.compile(r"selfType\d+")
_AGE = re.compile(r"(\d+[smhd])+")
_MARK = re.compile(r"\$(rv|uid|continue)(\d)")


@dataclass(frozen=True)
class Ask:
    """One request. In `path` and `body` stand `$name` for the case's object and `$rv1`, `$uid1`, `$continue1` for what the first
    answer had, and so on. A step that is not `compared` only prepares. pick: the part of the body that is comparable.
    """

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    compared: bool = True
    stranger: bool = False
    pick: Callable[[Any], Any] | None = None


Case = Sequence[Ask]
Cases = dict[str, Case]


@dataclass(frozen=True)
class Seen:
    """A comparable answer. `form` is how the body is written: JSON on one line, indented, YAML, protobuf, other text."""

    status: int
    headers: Mapping[str, Any]
    form: str
    body: Any


def ask(
    method: str,
    where: str,
    body: Any = None,
    *,
    kind: str = "application/json",
    accept: str = "application/json",
    compared: bool = True,
    stranger: bool = False,
    pick: Callable[[Any], Any] | None = None,
    **headers: str,
) -> Ask:
    """body: bytes or text as they are, anything else as JSON. kind: of the body; empty for no header, `accept` likewise.
    More headers by name, with `_` for `-`.
    """
    raw = body.encode() if isinstance(body, str) else body
    if raw is not None and not isinstance(raw, bytes):
        raw = json.dumps(raw).encode()
    given = {"user-agent": "same-answers/1", "accept": accept, "content-type": kind if raw is not None else ""}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {name: value for name, value in given.items() if value}
    return Ask(method, where, raw, sent, compared, stranger, pick)


def path(resource: str, name: str = "", *, namespace: str = "same", version: str = "v1", **query: object) -> str:
    """URL of a resource of the group; `_` at the end of a parameter's name is dropped (`continue_`)."""
    parts = ["/apis", GROUP, version]
    parts += ["namespaces", namespace] if namespace else []
    parts += [resource, *([name] if name else [])]
    pairs = [f"{key.rstrip('_')}={quote(str(value), safe='$')}" for key, value in query.items()]
    return "/".join(parts) + ("?" + "&".join(pairs) if pairs else "")


def thing(kind: str = "Thing", version: str = "v1", metadata: Any = None, **members: Any) -> dict[str, Any]:
    """An object named `$name`; `metadata` adds to its metadata."""
    merged = {"name": "$name", **(metadata or {})}
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": merged, **members}


def beacon(**members: Any) -> dict[str, Any]:
    return thing("Beacon", **members)


def post(body: Any, *, resource: str = "things", namespace: str = "same", **more: Any) -> Ask:
    return ask("POST", _with_query(path(resource, namespace=namespace), more), body, **more)


def put(body: Any, *, resource: str = "things", name: str = "$name", **more: Any) -> Ask:
    return ask("PUT", _with_query(path(resource, name), more), body, **more)


def patch(body: Any, kind: str = MERGE_PATCH, *, resource: str = "things", name: str = "$name", **more: Any) -> Ask:
    return ask("PATCH", _with_query(path(resource, name), more), body, kind=kind, **more)


def get(name: str = "$name", *, resource: str = "things", **more: Any) -> Ask:
    return ask("GET", _with_query(path(resource, name), more), **more)


def delete(body: Any = None, *, name: str = "$name", resource: str = "things", **more: Any) -> Ask:
    return ask("DELETE", _with_query(path(resource, name), more), body, **more)


def make(body: Any = None, resource: str = "things", namespace: str = "same") -> Ask:
    """Creates the case's object; compared elsewhere."""
    return post(body or thing(), resource=resource, namespace=namespace, compared=False)


def play(case: Case, name: str, client: Client, stranger: Client, *, settled: bool = False) -> list[Seen]:
    """The answers to the case's compared steps. Raises AssertionError where a step that only prepares was refused.

    settled: wait after each write until the server's watch cache has it. A write that begins with an older object than the
    stored one is tried again, and admission with it, so webhooks are asked twice.
    """
    answers: list[Any] = []
    seen = []
    for step in case:
        body = _filled(step.body.decode("utf-8", "surrogateescape"), name, answers) if step.body is not None else None
        raw = None if body is None else body.encode("utf-8", "surrogateescape")
        sender = stranger if step.stranger else client
        answer = sender.request(step.method, _filled(step.path, name, answers), step.headers, raw)
        assert step.compared or answer.status < 300, f"{step.method} {step.path}: {answer.status} {answer.body!r}"
        decoded, form = _decoded(answer)
        answers.append(decoded)
        if settled and step.method != "GET":
            _settle(sender, _filled(step.path, name, answers), decoded)
        if step.compared:
            body_seen = step.pick(decoded) if step.pick else decoded
            seen.append(Seen(answer.status, _headers(answer), form, comparable(body_seen)))
    return seen


def _settle(client: Client, where: str, answer: Any) -> None:
    revision = answer.get("metadata", {}).get("resourceVersion") if isinstance(answer, dict) else None
    if revision:
        client.request("GET", f"{where.partition('?')[0]}?resourceVersion={revision}", {"accept": "application/json"})


def _with_query(where: str, more: dict[str, Any]) -> str:
    """Takes `query` out of a step's arguments."""
    query = more.pop("query", "")
    return f"{where}?{query}" if query else where


def _filled(text: str, name: str, answers: Sequence[Any]) -> str:
    def found(match: re.Match[str]) -> str:
        metadata = answers[int(match[2]) - 1]["metadata"]
        value: str = metadata[{"rv": "resourceVersion"}.get(match[1], match[1])]
        return value

    return _MARK.sub(found, text.replace("$name", name))


def _decoded(answer: Answer) -> tuple[Any, str]:
    """The body and its form; events of a watch as a list."""
    kind, _, more = answer.header("content-type").partition(";")
    if kind == "application/vnd.kubernetes.protobuf":
        if not more:
            return protobuf.decode_answer(answer.body), "protobuf"
        return _without_periodic_bookmarks(protobuf.decode_events(answer.body)), "protobuf"
    text = answer.body.decode("utf-8", "replace")
    end = "" if text.endswith("\n") else ", no line break at the end"
    if not text:
        return "", "empty"
    if kind == "application/yaml":
        return yaml.load(text, yaml.BaseLoader), f"yaml{end}"
    if kind != "application/json":
        return text, f"text{end}"
    try:
        return json.loads(text), ("indented" if text.startswith("{\n") else "one line") + end
    except ValueError:
        return _without_periodic_bookmarks([json.loads(line) for line in text.splitlines()]), f"events{end}"


def _without_periodic_bookmarks(events: list[Any]) -> list[Any]:
    """Only the bookmark at the end of the initial events has its place; when others are sent is the server's own clock's matter.

    kube-apiserver collects the watches whose bookmark is due once a second, so that a watch of one second has one or none.
    """
    return [event for event in events if event.get("type") != "BOOKMARK" or "annotations" in event["object"]["metadata"]]


def _headers(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = {name: answer.headers[name] for name in _HEADERS if name in answer.headers}
    if "content-type" in found:
        found["content-type"] = [re.sub(r"\s", "", value) for value in found["content-type"]]
    return found


def comparable(value: Any) -> Any:
    """A JSON value without what differs from server to server."""
    if isinstance(value, dict):
        members = {_UID.sub("<uid>", key): comparable(member) for key, member in value.items()}
        if isinstance(value.get("managedFields"), list):
            members["managedFields"] = _comparable_owners(value["managedFields"])
        return _without_chance(members)
    if isinstance(value, list):
        return [comparable(member) for member in value]
    if not isinstance(value, str):
        return value
    text = _ONE_SIDED.sub("", _NUMBERS.sub(r"\1<number>", _TIME.sub("<time>", _UID.sub("<uid>", value))))
    text = text.replace('\\"', '"')
    for pattern, replacement in _QUOTED:
        text = pattern.sub(replacement, text)
    text = _SELF_TYPE.sub("selfType<number>", _GENERATED.sub(r"\1<generated>", text))
    return "<age>" if _AGE.fullmatch(text) else text


def _comparable_owners(entries: list[Any]) -> list[Any]:
    """managedFields by the managers' names: which of them wrote in one second, which their order depends on, is chance.

    Raises AssertionError where they are in another order than upstream's.
    """
    if not all(isinstance(entry, dict) for entry in entries):
        return entries  # not yet what a server has made of them
    stored = [entry for entry in entries if entry.get("fieldsType")]
    assert stored == sorted(stored, key=lambda entry: (entry["operation"], entry.get("time") or "", *_who(entry))), entries
    found = [comparable(entry) for entry in entries]
    for entry in found:
        if entry.get("manager") in CONTROLLERS:
            entry["manager"] = "<controller>"
    return sorted(found, key=lambda entry: (entry.get("operation", ""), *_who(entry)))


def _who(entry: dict[str, Any]) -> list[str]:
    return [entry.get(member) or "" for member in ("manager", "apiVersion", "subresource")]


def _without_chance(value: dict[str, Any]) -> dict[str, Any]:
    """An object's members that are made by chance."""
    for key in ("resourceVersion", "continue"):
        if isinstance(value.get(key), str) and value[key] not in ("", "0"):
            value[key] = f"<{key}>"
    return value


def without_order(seen: Seen) -> Seen:
    """An answer whose errors are sorted: they come in no order where upstream walks a map."""
    return replace(seen, body=_without_order(seen.body))


def _without_order(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_order(member) for member in value]
    if not isinstance(value, dict):
        return value
    value = {key: _without_order(member) for key, member in value.items()}
    if isinstance(value.get("message"), str) and ": errors:\n" in value["message"]:
        before, words, errors = value["message"].partition(": errors:\n")
        value["message"] = before + words + "\n".join(sorted(errors.split("\n")))
    if value.get("reason") == "Invalid" and "message" in value:
        before, words, errors = value["message"].partition(" is invalid: ")
        value["message"] = before + words + ", ".join(sorted(errors.strip("[]").split(", ")))
    if isinstance(value.get("causes"), list):
        value["causes"] = sorted(value["causes"], key=json.dumps)
    return value
