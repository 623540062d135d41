"""Events: what the audit tells of a request at one of its stages, as JSON, as a line of text, and without the bodies.

A `AuditRecord` gathers what becomes known of one request; each stage that the policy asks for makes an `Event` of it. An event is
encoded once, whoever gets it: the members of upstream's Event in their order, after the opening brace. A log puts kind and
apiVersion before them, a list of events does not.
Pure. Source: k8s.io/apiserver pkg/apis/audit/v1/types.go, pkg/audit/{context,request,format}.go, plugin/pkg/audit/truncate,
v0.36.3.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, NamedTuple

import orjson

from aggserver.audit.policy import LEVELS, REQUEST, REQUEST_RESPONSE, AuditConfig
from aggserver.authorization.attributes import Attributes
from aggserver.meta import codec
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.meta.times import format_micro_time

__all__ = [
    "MAX_KEPT_BYTES",
    "AuditRecord",
    "Event",
    "event_list",
    "log_line",
    "source_ips",
    "text_line",
    "truncated",
    "user_agent",
]

# A response that is made while it is sent is only recorded up to this size: a list may have gigabytes.
MAX_KEPT_BYTES = 8 * 2**20

_HEAD = b'{"kind":"Event","apiVersion":"audit.k8s.io/v1",'
_LIST_HEAD = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":['
_TRUNCATED = "audit.k8s.io/truncated"
_LONGEST_AGENT = 1024
# The members of a Status that an event repeats, in upstream's order.
_STATUS = ("status", "message", "reason", "details")


class Event(NamedTuple):
    """members: the event's JSON after its opening brace."""

    level: int
    members: bytes


class AuditRecord:
    """What is known of one request so far. `verdict.level` is at least Metadata: other requests have no record.

    annotations: of the authorizer and of admission, which adds to this very mapping. The first value of a key stays.
    deprecated: whether the request was for a deprecated version, which only the last event tells.
    status: of the response, if its body is a Status. code: of the response, 0 while there is none.
    """

    __slots__ = (
        "_object_ref",
        "_request_object",
        "_said",
        "annotations",
        "code",
        "deprecated",
        "impersonated",
        "is_ended",
        "response_object",
        "status",
        "verdict",
    )

    def __init__(
        self,
        verdict: AuditConfig,
        attributes: Attributes,
        audit_id: str,
        uri: str,
        ips: tuple[str, ...],
        agent: str,
        received: str,
    ) -> None:
        self.verdict = verdict
        # What stays as it is.
        self._said = (audit_id, uri, attributes.verb, attributes.user, ips, agent, received)
        self._object_ref = _object_ref(attributes) if attributes.on_resource else None
        self._request_object: bytes | None = None
        self.response_object: bytes | None = None
        self.impersonated: JSONObject | None = None
        self.annotations: dict[str, str] = {}
        self.deprecated = False
        self.status: Mapping[str, Any] | None = None
        self.code = 0
        self.is_ended = False

    @property
    def wants_request(self) -> bool:
        return self.verdict.level >= REQUEST

    @property
    def wants_response(self) -> bool:
        return self.verdict.level >= REQUEST_RESPONSE

    def annotate(self, key: str, value: str) -> None:
        self.annotations.setdefault(key, value)

    def object(self, obj: JSONObject) -> None:
        """The object that the client has sent, before anything has changed it. Its metadata completes the reference."""
        metadata = obj.get("metadata")
        if self._object_ref is not None and isinstance(metadata, dict):
            for member in ("namespace", "name", "uid", "resourceVersion"):
                if not self._object_ref.get(member) and (value := metadata.get(member)):
                    self._object_ref[member] = value
        if self.wants_request:
            if self.verdict.without_managed_fields:
                obj = _without_managed_fields(obj)
            self._request_object = codec.encode_json(obj)

    def patch(self, patch: bytes) -> None:
        """The JSON of the patch that the client has sent. Nothing is kept of what is no JSON: the request is refused for it."""
        if self.wants_request:
            with suppress(codec.DecodeError, TypeError):
                self._request_object = codec.encode_json(codec.decode_json(patch))

    def response(self, body: bytes) -> None:
        """The JSON of the response's object, on one line or indented."""
        bare = self.verdict.without_managed_fields and b'"managedFields"' in body
        if bare or b"\n" in body.rstrip():
            value = codec.decode_stored(body)
            body = codec.encode_json(_bare(value) if bare else value)
        self.response_object = body.rstrip()

    def too_long(self) -> None:
        """The response is longer than what is kept."""
        self.response_object = None
        self.annotate(_TRUNCATED, "true")

    def event(self, stage: str, now: float) -> Event:
        """The event of a stage. now: in seconds."""
        audit_id, uri, verb, user, ips, agent, received = self._said
        members: dict[str, Any] = {
            "level": LEVELS[self.verdict.level],
            "auditID": audit_id,
            "stage": stage,
            "requestURI": uri,
            "verb": verb,
            "user": user.to_json() if user.name else {},
        }
        if self.impersonated is not None:
            members["impersonatedUser"] = self.impersonated
        if ips:
            members["sourceIPs"] = ips
        if agent:
            members["userAgent"] = agent
        if self._object_ref is not None:
            members["objectRef"] = self._object_ref
        if self.code:
            members["responseStatus"] = _status(self.status, self.code)
        if self._request_object is not None:
            members["requestObject"] = orjson.Fragment(self._request_object)
        if self.response_object is not None:
            members["responseObject"] = orjson.Fragment(self.response_object)
        members["requestReceivedTimestamp"] = received
        members["stageTimestamp"] = received if stage == "RequestReceived" else micro_time(now)
        annotations = self.annotations
        if self.deprecated and stage == "ResponseComplete":
            annotations = {**annotations, "k8s.io/deprecated": "true"}
        # The lane sends the first event when the request is answered, so it must not tell what came later.
        if annotations and stage != "RequestReceived":
            members["annotations"] = {key: annotations[key] for key in sorted(annotations)}
        return Event(self.verdict.level, orjson.dumps(members)[1:])


def micro_time(seconds: float) -> str:
    """As upstream writes the times of an event."""
    return format_micro_time(*divmod(int(seconds * 1_000_000), 1_000_000))


def _object_ref(attributes: Attributes) -> JSONObject:
    _, _, group, version, resource, subresource, namespace, name, *_ = attributes
    ref = {}
    # Written out, since each request needs it.
    if resource:
        ref["resource"] = resource
    if namespace:
        ref["namespace"] = namespace
    if name:
        ref["name"] = name
    if group:
        ref["apiGroup"] = group
    if version:
        ref["apiVersion"] = version
    if subresource:
        ref["subresource"] = subresource
    return ref


def _status(status: Mapping[str, Any] | None, code: int) -> JSONObject:
    said = {name: status[name] for name in _STATUS if name in status} if status is not None else {}
    return {"metadata": {}, **said, "code": code}


def _without_managed_fields(obj: JSONObject) -> JSONObject:
    """A copy as far as it differs."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _bare(value: Any) -> Any:
    """An object, a list or a Table, and what is in it, without managedFields."""
    if not isinstance(value, dict):
        return value
    value = _without_managed_fields(value)
    if isinstance(items := value.get("items"), list):
        value = {**value, "items": [_bare(item) for item in items]}
    elif value.get("kind") == "Table" and isinstance(rows := value.get("rows"), list):
        value = {**value, "rows": [{**row, "object": _bare(row.get("object"))} for row in rows]}
    return value


def log_line(event: Event) -> bytes:
    """The event as a line of JSON."""
    return b"%s%s\n" % (_HEAD, event.members)


def event_list(events: Iterable[Event]) -> bytes:
    """The events as an EventList, for a webhook."""
    return b"%s%s]}" % (_LIST_HEAD, b",".join(b"{" + event.members for event in events))


def text_line(event: Event) -> bytes:
    """The event as a line of text: upstream's format `legacy`, with the most important members."""
    found = json.loads(b"{" + event.members)
    user, other = found["user"], found.get("impersonatedUser")
    ips = found.get("sourceIPs") or ["<unknown>"]
    values = {
        "id": found["auditID"],
        "stage": found["stage"],
        "ip": ips[0],
        "method": found["verb"],
        "user": user.get("username") or "<none>",
        "groups": _quoted(user.get("groups")) or "<none>",
        "as": other.get("username", "") if other is not None else "<self>",
        "asgroups": (_quoted(other.get("groups")) if other is not None else "") or "<lookup>",
        "user-agent": found.get("userAgent", ""),
        "namespace": (found.get("objectRef") or {}).get("namespace") or "<none>",
        "uri": found["requestURI"],
    }
    said = " ".join(f"{name}={quote(value)}" for name, value in values.items())
    code = found["responseStatus"]["code"] if "responseStatus" in found else "<deferred>"
    return f'{found["requestReceivedTimestamp"]} AUDIT: {said} response="{code}"\n'.encode()


def _quoted(groups: Iterable[str] | None) -> str:
    return ",".join(map(quote, groups or ()))


def truncated(event: Event, max_bytes: int) -> Event | None:
    """The event as it is if it has no more bytes, else without the objects of request and response; None if that is too long,
    too.
    """
    if _size(event) > max_bytes and event.level >= REQUEST:
        found = orjson.loads(b"{" + event.members)
        for member in ("requestObject", "responseObject"):
            found.pop(member, None)
        found["annotations"] = dict(sorted({**found.get("annotations", {}), _TRUNCATED: "true"}.items()))
        event = Event(event.level, orjson.dumps(found)[1:])
    return event if _size(event) <= max_bytes else None


def _size(event: Event) -> int:
    return len(_HEAD) + len(event.members) + 1


@lru_cache(1024)
def source_ips(forwarded: str, real: str, remote: str) -> tuple[str, ...]:
    """Where a request comes from: the client first, as X-Forwarded-For and X-Real-Ip tell it, then who has sent it to us.

    All but the last can be made up by the client. What is no address is left out, as upstream.
    """
    ips = [ip for part in forwarded.split(",") if (ip := _ip(part.strip()))]
    if (ip := _ip(real)) and ip not in ips:
        ips.append(ip)
    if (ip := _ip(remote)) and ips[-1:] != [ip]:
        ips.append(ip)
    return tuple(ips)


def _ip(text: str) -> str:
    """The address as Go writes it; '' for what is none. Zeros before the numbers of IPv4 are ignored, as Go's ParseIPSloppy."""
    if not text:
        return ""
    try:
        if "." in text and ":" not in text:
            text = ".".join(
                str(int(part)) if part.isascii() and part.isdigit() and len(part) < 16 else part for part in text.split(".")
            )
        address = ip_address(text)
    except ValueError:
        return ""
    if address.version == 6 and "%" in text:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def user_agent(header: bytes) -> str:
    if len(header) > _LONGEST_AGENT:
        header = header[:_LONGEST_AGENT] + b"...TRUNCATED"
    return header.decode("utf-8", "replace")
