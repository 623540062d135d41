"""Negotiation: the media type of a response, by the Accept header, and of a body, by the Content-Type.

Each kind of endpoint has a `Negotiator` with the media types that it offers. The clauses of Accept are tried by weight, then
without wildcards first, then in their order. A clause is skipped if it names a conversion or a stream that the endpoint doesn't
offer, so that `application/vnd.kubernetes.protobuf;as=Table;...,application/json` gets JSON. Results are cached by the header,
since clients send few different ones.
Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import orjson

from aggserver.endpoints.request import Request
from aggserver.meta import codec, errors
from aggserver.meta.errors import StatusError
from aggserver.scheme import protobuf

__all__ = [
    "AGGREGATED_DISCOVERY",
    "PLAIN",
    "MediaType",
    "Negotiator",
    "body_is_yaml",
    "for_object",
    "for_plain",
    "for_watch",
    "is_protobuf",
    "unsupported_body",
    "unsupported_media_type",
]

_JSON = "application/json"
_YAML = "application/yaml"
_PROTOBUF_SUBTYPE = "vnd.kubernetes.protobuf"
_PROTOBUF = f"application/{_PROTOBUF_SUBTYPE}"

# Cached headers per negotiator. The cache is cleared when it is full, so that its memory is limited whatever clients send.
_MAX_CACHED = 1024


@dataclass(frozen=True, slots=True)
class MediaType:
    """The negotiated media type of a response.

    subtype: json, yaml or vnd.kubernetes.protobuf. convert: the kind that objects are converted to, '' for none; api_version:
    that kind's group and version. pretty: whether JSON is indented, for people.
    """

    subtype: str = "json"
    convert: str = ""
    api_version: str = ""
    pretty: bool = False

    @property
    def content_type(self) -> bytes:
        return f"application/{self.subtype}".encode()

    @property
    def stream_content_type(self) -> bytes:
        """The content type of a watch: JSON with one event per line, or frames of protobuf."""
        return f"{_PROTOBUF};stream=watch".encode() if self.is_protobuf else _JSON.encode()

    @property
    def is_protobuf(self) -> bool:
        return self.subtype == _PROTOBUF_SUBTYPE

    @property
    def plain_json(self) -> bool:
        """Whether an object's encoded JSON can be sent unchanged, unless it has to be converted."""
        return self.subtype == "json" and not self.pretty

    @property
    def metadata_only(self) -> bool:
        """Whether the response has only the metadata of objects."""
        return self.convert in ("PartialObjectMetadata", "PartialObjectMetadataList")

    def unconverted(self) -> MediaType:
        """The media type without a conversion, for a Status, which is never converted."""
        return replace(self, convert="", api_version="") if self.convert else self

    def encode(self, tree: Any) -> tuple[bytes, bytes]:
        """(body, content type) of a JSON value."""
        if self.subtype == "yaml":
            return codec.dump_yaml(tree), self.content_type
        if self.is_protobuf:
            return protobuf.encode(tree), self.content_type
        form = orjson.OPT_INDENT_2 if self.pretty else orjson.OPT_APPEND_NEWLINE
        return orjson.dumps(tree, option=form), self.content_type


class _Clause(NamedTuple):
    type: str
    subtype: str
    weight: float
    parameters: dict[str, str]


class Negotiator:
    """The media types that one kind of endpoint offers.

    types: media types, the preferred one first. conversions: (kind, group, version) that objects can be converted to. plain:
    whether unconverted objects are offered. only_plain: types that are offered, and only unconverted. in_protobuf: the kinds that
    are offered as protobuf, '' for unconverted objects.
    """

    def __init__(
        self,
        types: Sequence[str],
        conversions: Sequence[tuple[str, str, str]] = (),
        *,
        plain: bool = True,
        only_plain: Sequence[str] = (),
        in_protobuf: Sequence[str] = (),
    ) -> None:
        self._types = tuple(types)
        self._in_protobuf = frozenset(in_protobuf)
        self._conversions = frozenset(conversions)
        self._plain = plain
        self._only_plain = frozenset(only_plain)
        self._named = ", ".join(types)
        self._known: dict[str, MediaType | None] = {}

    def match(self, accept: str) -> MediaType | None:
        """The media type for an Accept header; None if nothing acceptable is offered. '' gets the first of `types`."""
        try:
            return self._known[accept]
        except KeyError:
            found = self._find(accept)
        if len(self._known) >= _MAX_CACHED:
            self._known.clear()
        self._known[accept] = found
        return found

    def negotiate(self, accept: str) -> MediaType:
        """As `match`, but raises NotAcceptable instead of returning None."""
        found = self.match(accept)
        if found is None:
            raise errors.not_acceptable(f"only the following media types are accepted: {self._named}")
        return found

    def _find(self, accept: str) -> MediaType | None:
        if not accept:
            return _media_type(self._types[0]) if self._plain else None
        for clause in _clauses(accept):
            for offered in self._types:
                if _matches(clause, offered):
                    found = self._accept(clause, offered)
                    if found is not None:
                        return found
        return None

    def _accept(self, clause: _Clause, offered: str) -> MediaType | None:
        given = clause.parameters
        # `stream` is for watches; `sv` asks for a version of meta.k8s.io, which has only v1.
        if given.get("stream", "watch") != "watch" or given.get("sv", "v1") != "v1":
            return None
        if offered == _PROTOBUF and given.get("as", "") not in self._in_protobuf:
            return None
        pretty = given.get("pretty") == "1"
        if not given.keys() & {"as", "g", "v"}:
            return replace(_media_type(offered), pretty=pretty) if self._plain or offered in self._only_plain else None
        if offered in self._only_plain:
            return None
        kind, group, version = given.get("as", ""), given.get("g", ""), given.get("v", "")
        if (kind, group, version) not in self._conversions:
            return None
        return replace(_media_type(offered), convert=kind, api_version=f"{group}/{version}", pretty=pretty)


def _media_type(name: str) -> MediaType:
    return MediaType(name.partition("/")[2])


def _clauses(accept: str) -> list[_Clause]:
    """The clauses of the header, best first, without malformed ones and those of weight 0, which the client doesn't accept."""
    found = [clause for clause in _parse(accept) if clause.weight > 0]
    return sorted(found, key=lambda clause: (-clause.weight, clause.type == "*", clause.subtype == "*"))


def _parse(accept: str) -> Iterator[_Clause]:
    for part in accept.split(","):
        name, *rest = part.split(";")
        kind, slash, subtype = (text.strip() for text in name.strip().partition("/"))
        if not slash and kind == "*":
            subtype = "*"
        if not kind or not subtype or "/" in subtype:
            continue
        parameters: dict[str, str] = {}
        for pair in rest:
            key, equals, value = pair.partition("=")
            if equals and value and "=" not in value:
                parameters[key.strip()] = value.strip()
        yield _Clause(kind, subtype, _weight(parameters.pop("q", "1")), parameters)


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _matches(clause: _Clause, offered: str) -> bool:
    kind, _, subtype = offered.partition("/")
    if clause.type == "*":
        return clause.subtype == "*"
    return clause.type == kind and clause.subtype in (subtype, "*")


_META_CONVERSIONS = tuple(
    (kind, "meta.k8s.io", version)
    for kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    for version in ("v1", "v1beta1")
)

_ALL = (_JSON, _YAML, _PROTOBUF)
# Custom resources and Tables have no protobuf form; that of built-in kinds is below.
_OBJECT = Negotiator(_ALL, _META_CONVERSIONS, in_protobuf=("PartialObjectMetadata", "PartialObjectMetadataList"))
# The same for kinds that can only be created, like reviews, which have no Tables: upstream has no columns for them.
_UNLISTED = Negotiator(_ALL, _META_CONVERSIONS[2:], in_protobuf=("PartialObjectMetadata", "PartialObjectMetadataList"))
# For responses that can't be converted: Status, and discovery that is not aggregated.
PLAIN = Negotiator(_ALL, in_protobuf=("",))
# Matches only if the client asks for aggregated discovery.
AGGREGATED_DISCOVERY = Negotiator(
    _ALL,
    (("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"),),
    plain=False,
    in_protobuf=("APIGroupDiscoveryList",),
)

_LISTING_VERBS = frozenset({"list", "deletecollection"})


# Of built-in kinds, for clients that accept nothing else: JSON is the stored bytes, and costs nothing.
_IN_PROTOBUF = Negotiator((_PROTOBUF,), in_protobuf=("",))


def _negotiated(negotiator: Negotiator, accept: str, *, built_in: bool) -> MediaType:
    if built_in and (media := negotiator.match(accept) or _IN_PROTOBUF.match(accept)) is not None:
        return media
    return negotiator.negotiate(accept)


def for_object(request: Request, *, tables: bool = True, built_in: bool = False) -> MediaType:
    """For a response with one object or, by the verb, a list. Raises NotAcceptable.

    tables: whether the kind has Tables. built_in: whether it is a kind of Kubernetes itself, which has a protobuf form.
    """
    media = _negotiated(_OBJECT if tables else _UNLISTED, request.header(b"accept"), built_in=built_in)
    if media.convert == "PartialObjectMetadata" and request.info.verb in _LISTING_VERBS:
        raise errors.not_acceptable(
            "you requested PartialObjectMetadata, but the requested object is a list (*unstructured.UnstructuredList)"
        )
    if media.convert == "PartialObjectMetadataList" and request.info.verb not in _LISTING_VERBS:
        raise errors.not_acceptable(
            "you requested PartialObjectMetadataList, but the requested object is not a list (*unstructured.Unstructured)"
        )
    return _for_reader(request, media)


def for_watch(request: Request, *, built_in: bool = False) -> MediaType:
    """For the events of a watch: JSON, not indented since each event is one line, or protobuf. Raises NotAcceptable.

    built_in: see `for_object`.
    """
    media = _negotiated(_OBJECT, request.header(b"accept"), built_in=built_in)
    if media.subtype == "yaml":
        streams = f"{_JSON};stream=watch, {_PROTOBUF};stream=watch"
        raise errors.not_acceptable(f"only the following media types are accepted: {streams}")
    return replace(media, pretty=False) if media.pretty else media


def for_plain(request: Request) -> MediaType:
    """For a response that can't be converted. Raises NotAcceptable."""
    return _for_reader(request, PLAIN.negotiate(request.header(b"accept")))


_PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})


def _for_reader(request: Request, media: MediaType) -> MediaType:
    """The media type, with indented JSON for people: if `?pretty` is true, or for some user agents if it is not set."""
    if media.pretty or media.subtype != "json":
        return media
    given = request.query.get("pretty", "") if "pretty" in request.query_string else ""
    pretty = given in _TRUE if given else request.header(b"user-agent").startswith(_PRETTY_AGENTS)
    return replace(media, pretty=True) if pretty else media


def body_is_yaml(content_type: str) -> bool:
    """Whether a request's body is YAML; otherwise it is JSON, the default. Raises UnsupportedMediaType."""
    name = content_type.partition(";")[0].strip().lower()
    if name not in ("", _JSON, _YAML):
        raise unsupported_body()
    return name == _YAML


def is_protobuf(content_type: str) -> bool:
    """Whether a request's body is protobuf, which Go's typed clients send for built-in kinds and for DeleteOptions."""
    return content_type.partition(";")[0].strip().lower() == _PROTOBUF


def unsupported_body() -> StatusError:
    """415 for a body of another type. It names protobuf even for custom resources, which don't have it, as upstream."""
    return unsupported_media_type(_ALL)


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    return errors.unsupported_media_type(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    )
