"""StoredObject: one object of the watch cache, as the bytes that clients are sent.

A store keeps an object as JSON without its resourceVersion, since that is the revision of a commit yet to come. The encoding
leaves a place for it: apiVersion, kind and metadata stand first, so that the number goes in behind a prefix that is found
without decoding, and nobody has to look inside an object to read, list or watch it. What selectors ask for (labels, selectable
fields) is taken out at first need and kept beside the bytes; name and namespace are in the key.

Pure. `make` and `at` are what a resource's cacher builds its objects with; handlers see them as `registry.rest.Object`.
Source: the layout is kube-apiserver's own in etcd (keys sorted, so apiVersion, kind, metadata come first for nearly all objects).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from aggserver.meta import codec
from aggserver.meta.golang import json_kind
from aggserver.meta.json_types import JSONObject
from aggserver.publish.table import Row, TableConvertor
from aggserver.registry.nested import go_type
from aggserver.schema.pruning import MalformedError
from aggserver.storage.interface import Corrupt, KeyValue

__all__ = ["FieldReader", "StoredObject", "at", "encode", "head", "make", "make_decodable", "value"]

FieldReader = Callable[[JSONObject], Mapping[str, str]]

_HEAD = re.compile(rb'\{"apiVersion":"[^"\\]*","kind":"[^"\\]*","metadata":\{')
# A kind or version: what could be in none would not be found again by _HEAD.
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
# Labels where `encode` puts them; no valid key or value has anything to escape.
_LABELS = re.compile(_HEAD.pattern + rb'"resourceVersion":"[0-9]+","labels":(\{(?:"[^"\\]*":"[^"\\]*",?)*\})')


class StoredObject:
    """`raw` is the JSON, resourceVersion included. Immutable, but for what it remembers of itself.

    form: the schema that the bytes are known to be conformed to; None while nobody has looked. Bytes that were written before
    the definition changed, or by another server, may be in none.
    """

    __slots__ = ("_conformed", "_fields", "_labels", "_row", "form", "key", "raw", "revision")

    def __init__(self, key: str, raw: bytes, revision: int) -> None:
        self.key = key
        self.raw = raw
        self.revision = revision
        self.form: object = None
        self._conformed: StoredObject | None = None
        self._labels: Mapping[str, str] | None = None
        self._fields: tuple[FieldReader, Mapping[str, str]] | None = None
        self._row: tuple[TableConvertor, Row] | None = None

    @property
    def size(self) -> int:
        return len(self.raw)

    def decoded(self) -> JSONObject:
        """A fresh tree, the caller's own to change. Raises Corrupt."""
        try:
            tree: JSONObject = codec.decode_stored(self.raw)
        except ValueError:
            raise Corrupt(self.key, self.revision, _decode_error(self.raw)) from None
        return tree

    def conformed(self, form: object) -> StoredObject | None:
        """The object as this form has it, if that is known."""
        if self.form is form:
            return self
        other = self._conformed
        return other if other is not None and other.form is form else None

    def conform(self, form: object, raw: bytes, *, remember: bool = True) -> StoredObject:
        """The object with its bytes in this form, which mostly are the same. remember: for the next who asks for this form."""
        if raw == self.raw:
            self.form = form
            return self
        view = StoredObject(self.key, raw, self.revision)
        view.form = form
        if remember:
            self._conformed = view
        return view

    @property
    def labels(self) -> Mapping[str, str]:
        """Raises Corrupt."""
        if self._labels is None:
            self._labels = self._read_labels()
        return self._labels

    def _read_labels(self) -> Mapping[str, str]:
        if b'"labels":{' not in self.raw:
            return {}
        found = _LABELS.match(self.raw)
        # None: written by another server, or these are labels inside the object.
        labels: Mapping[str, str] = self.decoded()["metadata"].get("labels") if found is None else codec.decode_stored(found[1])
        return labels or {}

    def fields(self, read: FieldReader) -> Mapping[str, str]:
        """The selectable fields, read once for each reader: there is one for a resource, until its definition changes.

        Raises Corrupt.
        """
        if self._fields is None or self._fields[0] is not read:
            try:
                self._fields = (read, read(self.decoded()))
            except MalformedError as error:
                raise Corrupt(self.key, self.revision, str(error)) from None
        return self._fields[1]

    def row(self, table: TableConvertor) -> Row:
        """Its row of a table, made once for each: there is one for a version, until its definition changes."""
        if self._row is None or self._row[0] is not table:
            self._row = (table, table.row(self.decoded(), self.raw))
        return self._row[1]

    def __repr__(self) -> str:
        return f"StoredObject({self.key!r}, revision={self.revision})"


def head(api_version: str, kind: str) -> bytes:
    """What the bytes of every object of this version and kind begin with."""
    return codec.encode_json({"apiVersion": api_version, "kind": kind})[:-1] + b',"metadata":{'


def encode(obj: JSONObject, api_version: str, kind: str) -> bytes:
    """The bytes to store: `obj` under this apiVersion and kind, these and metadata first, without a resourceVersion.

    In metadata labels come first, where selectors find them.
    """
    given = obj["metadata"]
    metadata = {"labels": given["labels"]} if "labels" in given else {}
    metadata.update(given)
    metadata.pop("resourceVersion", None)
    ordered: dict[str, Any] = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    for key, entry in obj.items():
        if key not in ordered:
            ordered[key] = entry
    return codec.encode_json(ordered)


def make(kv: KeyValue) -> StoredObject:
    """Raises Corrupt for what is seen from outside to be unreadable; nobody looks inside yet."""
    if kv.fault:
        raise Corrupt(kv.key, kv.revision, kv.fault)
    try:
        return StoredObject(kv.key, _place(kv.value, kv.revision), kv.revision)
    except _UndecodableError as error:
        raise Corrupt(kv.key, kv.revision, str(error)) from None


def make_decodable(kv: KeyValue) -> StoredObject:
    """As `make`, for few objects that many look into: raises Corrupt for all that can't be decoded."""
    obj = make(kv)
    obj.decoded()
    return obj


class _UndecodableError(ValueError):
    """The bytes are no object. `str()` says why, in the words of upstream's decoders, but without the bytes: a log shows it."""


def at(obj: StoredObject, revision: int) -> StoredObject:
    """`obj` as it was, under the revision of its deletion."""
    placed = StoredObject(obj.key, _place(value(obj), revision), revision)
    placed.form = obj.form
    return placed


def value(obj: StoredObject) -> bytes:
    """The bytes as they are stored: `raw` without the resourceVersion that `make` put in."""
    placed = b'"resourceVersion":"%d",' % obj.revision
    start = obj.raw.index(placed)
    return obj.raw[:start] + obj.raw[start + len(placed) :]


def _place(stored: bytes, revision: int) -> bytes:
    stored = stored.rstrip()  # other servers end with a newline, which would end a watch's frame early
    found = _HEAD.match(stored)
    if found is None:
        # Written by another server, with a key that sorts before `metadata`: brought into our order once.
        tree = _object(stored)
        stored = encode(tree, tree["apiVersion"], tree["kind"])
        found = _HEAD.match(stored)
        assert found is not None  # encode puts them first, and neither can hold a quote
    cut = found.end()
    return b'%b"resourceVersion":"%d",%b' % (stored[:cut], revision, stored[cut:])


def _object(encoded: bytes) -> JSONObject:
    """Something with a version, a kind and metadata. Raises _UndecodableError."""
    try:
        tree = codec.decode_json(encoded)
    except codec.DecodeError as error:
        raise _UndecodableError(str(error)) from None
    if not isinstance(tree, dict | None):
        raise _UndecodableError(f"json: cannot unmarshal {json_kind(tree)} into Go value of type map[string]interface {{}}")
    obj: JSONObject = tree or {}
    for key, name in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not isinstance(obj.get(key), str) or not _PLAIN.fullmatch(obj[key]):
            raise _UndecodableError(f"Object '{name}' is missing")
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        raise _UndecodableError(f"invalid metadata: expected object, got {go_type(metadata)}")
    return obj


def _decode_error(encoded: bytes) -> str:
    try:
        codec.decode_json(encoded)
    except codec.DecodeError as error:
        return str(error)
    return "it is nested too deeply"  # which this decoder takes, and the quick one doesn't
