"""StoredObject: one object in the watch cache, as the bytes that are sent to clients.

An object is stored as JSON without its resourceVersion, which is the revision of the commit and not known before it. In the
stored bytes apiVersion, kind and metadata come first, so that the resourceVersion can be inserted behind a prefix that a regular
expression finds. No object has to be decoded to get, list or watch it. Labels and selectable fields are read when a selector
first needs them, and cached with the object; name and namespace are in the key.

Pure. A resource's cacher makes its objects with `make` and `at`; handlers see them as `registry.rest.Object`.
Source: kube-apiserver's layout in etcd, with sorted keys, also begins with apiVersion, kind and metadata for nearly all objects.
"""

from __future__ import annotations

import json
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

__all__ = [
    "UNSTORED",
    "FieldReader",
    "StoredObject",
    "VersionedObject",
    "api_version",
    "at",
    "converted",
    "encode",
    "has_value",
    "head",
    "make",
    "make_decodable",
    "metadata_of",
    "unstored",
    "value",
    "versioned",
]

_raw_decode = json.JSONDecoder().raw_decode
FieldReader = Callable[[JSONObject], Mapping[str, str]]

_HEAD = re.compile(rb'\{"apiVersion":"[^"\\]*","kind":"[^"\\]*","metadata":\{')
# The content revision of what is not stored.
UNSTORED = -1
_API_VERSION = b'{"apiVersion":"'
# A valid kind or apiVersion. With other characters in them, _HEAD would not match the encoded object.
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
# The labels, where `encode` puts them: before them, no text of the object can have these bytes.
_VERSION, _LABELS = b'"metadata":{"resourceVersion":"', b',"labels":{'


class StoredObject:
    """raw: the JSON, with its resourceVersion. Immutable, except for what is cached with it.

    form: identifies the schema that the bytes are known to be pruned and defaulted by; None if that is unknown, as for bytes that
    were stored before the definition changed, or by another server.
    content_revision: the revision that wrote the content, which is earlier than `revision` in the event of a deletion; UNSTORED
    for what no revision has, as the result of a dry run.
    known_labels: the labels, after they were read for the first time.
    """

    # In few words: with each of eight further slots it would take ten bytes more, and a server may have millions of objects.
    # _kept: what few objects have; None, a row alone, or a `_Kept`.
    __slots__ = ("_kept", "form", "key", "known_labels", "raw", "revision")

    def __init__(self, key: str, raw: bytes, revision: int) -> None:
        self.key = key
        self.raw = raw
        self.revision = revision
        self.form: object = None
        self.known_labels: Mapping[str, str] | None = None
        self._kept: Row | _Kept | None = None

    @property
    def content_revision(self) -> int:
        kept = self._kept
        return kept.content_revision if isinstance(kept, _Kept) else self.revision

    @content_revision.setter
    def content_revision(self, revision: int) -> None:
        if revision != self.revision:
            self._keep().content_revision = revision

    def _keep(self) -> _Kept:
        """Where what few objects have is kept, made at the first use."""
        kept = self._kept
        if not isinstance(kept, _Kept):
            kept = self._kept = _Kept(self.revision, kept)
        return kept

    @property
    def size(self) -> int:
        return len(self.raw)

    @property
    def resource_version(self) -> str:
        return str(self.revision)

    def decoded(self) -> JSONObject:
        """A decoded copy, which the caller may change. Raises Corrupt."""
        try:
            tree: JSONObject = codec.decode_stored(self.raw)
        except ValueError:
            raise Corrupt(self.key, self.revision, _decode_error(self.raw)) from None
        return tree

    def conformed(self, form: object) -> StoredObject | None:
        """The object in this form, if it is cached."""
        if self.form is form:
            return self
        kept = self._kept
        if not isinstance(kept, _Kept) or kept.conformed is None or kept.conformed.form is not form:
            return None
        return kept.conformed

    def conform(self, form: object, raw: bytes, *, remember: bool = True) -> StoredObject:
        """The object in this form. raw: its bytes in it, which are mostly the same. remember: cache it for `conformed`."""
        if raw == self.raw:
            self.form = form
            return self
        view = self._with(raw)
        view.form = form
        if remember:
            self._keep().conformed = view
        return view

    def _with(self, raw: bytes) -> StoredObject:
        """The object with other bytes."""
        return StoredObject(self.key, raw, self.revision)

    @property
    def labels(self) -> Mapping[str, str]:
        """Raises Corrupt."""
        if self.known_labels is None:
            self.known_labels = self.read_labels()
        return self.known_labels

    def read_labels(self) -> Mapping[str, str]:
        """The labels, without caching them. Raises Corrupt."""
        if self.known_labels is not None:
            return self.known_labels
        raw = self.raw
        # No regular expression, which would take most of the time of building an index.
        version = raw.find(_VERSION)
        labels = raw.find(b'"', version + len(_VERSION)) + 1
        if version > 0 and raw.startswith(_LABELS, labels):
            begin, end = labels + len(_LABELS) - 1, raw.find(b"}", labels) + 1
            try:
                own: Mapping[str, str] = codec.decode_stored(raw[begin:end])
            except ValueError:
                own = {}  # a value has a brace
            if own and raw.count(b'":"', begin, end) == len(own):  # all values are strings
                return own
        elif b'"labels":{' not in raw:
            return {}
        # The object was written by another server, or these labels are not the object's own.
        given = self.decoded()["metadata"].get("labels")
        if not isinstance(given, dict | None) or not all(isinstance(value, str | None) for value in (given or {}).values()):
            raise Corrupt(self.key, self.revision, "its labels are not a map of strings")
        return {key: value or "" for key, value in (given or {}).items()}

    def fields(self, read: FieldReader, *, keep: bool = True) -> Mapping[str, str]:
        """The selectable fields. keep: cache them for the last `read`: a resource has one, until its definition changes.

        Raises Corrupt.
        """
        kept = self._kept
        if isinstance(kept, _Kept) and kept.fields is not None and kept.fields[0] is read:
            return kept.fields[1]
        try:
            values = read(self.decoded())
        except MalformedError as error:
            raise Corrupt(self.key, self.revision, str(error)) from None
        if keep:
            self._keep().fields = (read, values)
        return values

    def row(self, table: TableConvertor) -> Row:
        """Its row in a table, cached for the last `table`: a version has one, until its definition changes."""
        kept = self._kept
        row = kept.row if isinstance(kept, _Kept) else kept
        if row is None or not table.made(row):
            row = table.row(self.decoded(), self.raw)
            if isinstance(kept, _Kept):
                kept.row = row
            else:
                self._kept = row
        return row

    def __repr__(self) -> str:
        return f"StoredObject({self.key!r}, revision={self.revision})"


class _Kept:
    """What few objects have. conformed: the object in another form. fields: the selectable fields, and by what they were read."""

    __slots__ = ("conformed", "content_revision", "fields", "row")

    def __init__(self, content_revision: int, row: Row | None) -> None:
        self.content_revision = content_revision
        self.row = row
        self.conformed: StoredObject | None = None
        self.fields: tuple[FieldReader, Mapping[str, str]] | None = None


class VersionedObject(StoredObject):
    """An object whose resourceVersion is a text that somebody else has made. It has no revision: that is 0."""

    __slots__ = ("_version",)

    def __init__(self, key: str, raw: bytes, version: str) -> None:
        super().__init__(key, raw, 0)
        self._version = version

    @property
    def resource_version(self) -> str:
        return self._version

    def _with(self, raw: bytes) -> StoredObject:
        return VersionedObject(self.key, raw, self._version)


def head(api_version: str, kind: str) -> bytes:
    """The first bytes of every encoded object of this version and kind."""
    return codec.encode_json({"apiVersion": api_version, "kind": kind})[:-1] + b',"metadata":{'


def encode(obj: JSONObject, api_version: str, kind: str) -> bytes:
    """The bytes to store: `obj` with this apiVersion and kind, and without a resourceVersion.

    apiVersion, kind and metadata come first, and labels come first in metadata, where selectors find them.
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
    """The object of a stored key. Raises Corrupt if it can't be read and that is visible without decoding it."""
    if kv.fault:
        raise Corrupt(kv.key, kv.revision, kv.fault)
    try:
        return StoredObject(kv.key, _place(kv.value, kv.revision), kv.revision)
    except _UndecodableError as error:
        raise Corrupt(kv.key, kv.revision, str(error)) from None


def versioned(key: str, encoded: bytes, version: str) -> VersionedObject:
    """An object with a text as its resourceVersion. encoded: as `encode` has made it. version: has nothing that JSON escapes."""
    found = _HEAD.match(encoded)
    assert found is not None  # `encode` writes it so
    cut = found.end()
    raw = b'%b"resourceVersion":"%b",%b' % (encoded[:cut], version.encode(), encoded[cut:])
    return VersionedObject(key, raw, version)


def make_decodable(kv: KeyValue) -> StoredObject:
    """As `make`, but raises Corrupt for every object that can't be decoded. For resources that have few objects."""
    obj = make(kv)
    obj.decoded()
    return obj


class _UndecodableError(ValueError):
    """The bytes are no object. `str()` has upstream's error text, but without the bytes, since it is logged."""


def at(obj: StoredObject, revision: int) -> StoredObject:
    """`obj` with another resourceVersion, which is the revision of its deletion."""
    placed = StoredObject(obj.key, _place(value(obj), revision), revision)
    placed.form = obj.form
    placed.content_revision = obj.content_revision
    return placed


def converted(obj: StoredObject, encoded: bytes, form: object) -> StoredObject:
    """The view of an object in another version. encoded: as `encode` has made it, without a resourceVersion.

    A revision of 0 is that of an object that a dry run would create; it has no resourceVersion.
    """
    view = StoredObject(obj.key, _place(encoded, obj.revision) if obj.revision else encoded, obj.revision)
    view.form = form
    view.content_revision = obj.content_revision
    return view


def api_version(obj: StoredObject) -> str:
    """The version of the object's bytes."""
    return obj.raw[len(_API_VERSION) : obj.raw.index(b'"', len(_API_VERSION))].decode()


def unstored(key: str, encoded: bytes, revision: int = 0) -> StoredObject:
    """An object that is not stored, as the result of a dry run. revision: of the object it would replace; 0 for none."""
    obj = StoredObject(key, _place(encoded, revision) if revision else encoded, revision)
    obj.content_revision = UNSTORED
    return obj


def value(obj: StoredObject) -> bytes:
    """The bytes as they are stored: `raw` without the resourceVersion that `make` has inserted."""
    placed = b'"resourceVersion":"%b",' % obj.resource_version.encode()
    start = obj.raw.index(placed)
    return obj.raw[:start] + obj.raw[start + len(placed) :]


def has_value(obj: StoredObject, encoded: bytes) -> bool:
    """Whether `value(obj)` is the same, without making it."""
    placed, raw = b'"resourceVersion":"%b",' % obj.resource_version.encode(), obj.raw
    start = raw.index(placed)
    return (
        len(raw) == len(encoded) + len(placed)
        and raw.startswith(encoded[:start])
        and raw.endswith(encoded[start:], start + len(placed))
    )


def _place(stored: bytes, revision: int) -> bytes:
    stored = stored.rstrip()  # other servers append a newline, which would end the line of a watch event too early
    found = _HEAD.match(stored)
    if found is None:
        # Written by another server, with a key that sorts before `metadata`: encode it again in our order.
        tree = _object(stored)
        stored = encode(tree, tree["apiVersion"], tree["kind"])
        found = _HEAD.match(stored)
        assert found is not None  # `encode` puts apiVersion and kind first, and _PLAIN excludes quotes in them
    cut = found.end()
    return b'%b"resourceVersion":"%d",%b' % (stored[:cut], revision, stored[cut:])


def metadata_of(stored: bytes) -> JSONObject:
    """The metadata of an object as it is stored. Only they are decoded, so that the time does not depend on the object's size.

    Raises ValueError for what is no object.
    """
    found = _HEAD.match(stored)
    if found is None:
        # Written by another server, with a key that sorts before `metadata`.
        tree = _object(stored)["metadata"]
    else:
        tree, _ = _raw_decode(stored[found.end() - 1 :].decode())
    metadata: JSONObject = tree
    return metadata


def _object(encoded: bytes) -> JSONObject:
    """Decode a JSON object with apiVersion, kind and metadata. Raises _UndecodableError."""
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
    return "it is nested too deeply"  # `decode_json` accepts deeper nesting than `decode_stored`
