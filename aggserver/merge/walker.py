"""Walker: the fast form of checking, comparing and merging values of one type and finding their fields.

`typed.py`, `comparing.py` and `merging.py` have the same rules in plain form, which handles every value and makes the texts of
errors. But nearly every value fits its type, and most of a written object is unchanged. So they ask a walker first. It skips
identical and equal parts, builds sets only for what differs, and returns unchanged parts of its arguments themselves. It raises
Misfit for rare cases: values that don't fit, items of one list with the same key, keys that are neither strings nor integers. The
plain form then decides. Property tests check that both have the same results.

There is one walker for each type of a schema, made when a value first needs it, and kept in the type (`Atom.walker`). It also
keeps the path elements of declared fields, so that all sets share them. The schema bounds the memory that a walker takes.

Source: as of the plain forms; this form is ours. Pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from aggserver.merge import fieldset
from aggserver.merge.atom import Atom, ListType, MapType
from aggserver.merge.fieldset import FieldSet
from aggserver.merge.values import ABSENT, are_identical, equal

__all__ = ["Changes", "ListWalker", "Misfit", "Walker", "walker_of", "woven"]

# (removed, modified, added): the fields that differ, as the node of an element in a field set. None if there are none; empty if
# it is the element alone.
Changes = tuple[FieldSet | None, FieldSet | None, FieldSet | None]

JSONObject = dict[str, Any]
T = TypeVar("T", bound=Hashable)

_LEAF: FieldSet = fieldset.EMPTY
_MODIFIED: Changes = (None, _LEAF, None)
_NO_MEMBERS: JSONObject = {}
# The most sets of members of one flat map whose nodes are kept.
_SHAPES = 64
_SCALARS = frozenset((str, bool, int, float))
# Scalars that have one JSON text if they are equal, unlike 0.0 and -0.0.
_EXACT = frozenset((str, bool, int, type(None)))
_CLASSES: Mapping[str, frozenset[type]] = {
    "": frozenset(),
    "string": frozenset((str,)),
    "boolean": frozenset((bool,)),
    "numeric": frozenset((int, float)),
    "untyped": _SCALARS,
}


class Misfit(Exception):
    """A walker can't handle a value, so the plain form has to decide."""


def walker_of(atom: Atom) -> Walker:
    """The walker of a type, made at the first call: a type may contain itself, and objects use few fields of a large schema."""
    found: Walker | None = atom.walker
    if found is None:
        found = atom.walker = _make(atom)
    return found


def _make(atom: Atom) -> Walker:
    kinds = [
        *([] if atom.map is None else [_AtomicMap(atom, atom.map) if atom.map.atomic else _Map(atom, atom.map)]),
        *([] if atom.list is None else [ListWalker(atom, atom.list) if atom.list.associative else _AtomicList(atom, atom.list)]),
        *([_Scalar(atom)] if atom.scalar else []),
    ]
    if not kinds:
        return Walker(atom)
    return kinds[0] if len(kinds) == 1 else _Either(atom, kinds)


class Walker:
    """A walker of values that are owned as a whole. The base class itself is for the type that no value fits."""

    __slots__ = ("_is_textual", "has_atomic")

    def __init__(self, atom: Atom) -> None:
        # Kept here, since the type computes these from all types in it at each access.
        self._is_textual = atom.is_textual
        self.has_atomic = atom.has_atomic

    def fits(self, value: Any, allow_duplicates: bool) -> bool:
        """Whether `value` is of the type. If this is False, the plain form decides, and may still find no error."""
        return False

    def changes(self, old: Any, new: Any) -> Changes | None:
        """Compare two values; None if nothing changed. The caller has checked that `new` fits the type; `old` is checked here.

        Neither is ABSENT. Raises Misfit.
        """
        if self._is_textual:
            if old == new:
                return None
        elif equal(old, new):
            self._check(old)
            return None
        self._check(old)
        return _MODIFIED

    def whole(self, value: Any) -> FieldSet:
        """The node of a value that was added or removed as a whole. Raises Misfit."""
        return _LEAF

    def fields(self, value: Any) -> FieldSet | None:
        """The node of the fields that an applier of this value owns: its leaves, and the items of associative lists.

        None if there are none. The caller has checked that `value` fits the type. Raises Misfit.
        """
        return _LEAF

    def node_of_item(self, value: Any) -> FieldSet:
        """As `fields`, for an item of an associative list, which is itself a member of the set."""
        return fieldset.with_member(self.fields(value))

    def merge(self, live: Any, applied: Any) -> Any:
        """Merge `applied`, which the caller has checked, into `live`, which is checked here. `live` itself if nothing changes.

        Neither is ABSENT. Raises Misfit.
        """
        if self._is_same(live, applied):
            return live
        self._check(live)
        return applied

    def _is_same(self, live: Any, applied: Any) -> bool:
        """Whether both are the same JSON. Then `live` fits if `applied` does."""
        return bool(live == applied) if self._is_textual else are_identical(live, applied)

    def _check(self, stored: Any) -> None:
        if not self.fits(stored, True):
            raise Misfit


class _Scalar(Walker):
    __slots__ = ("_classes",)

    def __init__(self, atom: Atom) -> None:
        super().__init__(atom)
        self._classes = _CLASSES[atom.scalar] | {type(None)}

    def fits(self, value: Any, allow_duplicates: bool) -> bool:
        return value.__class__ in self._classes


def _classes_of(atom: Atom | None) -> frozenset[type]:
    """The Python classes of a type that has only scalars; none for other types."""
    if atom is None or atom.map is not None or atom.list is not None:
        return frozenset()
    return _CLASSES[atom.scalar]


def _most_likely(atom: Atom) -> type | None:
    """The class that nearly all values of a scalar type have, for a quick check; None for other types."""
    return next((each for each in (str, bool, int) if each in _classes_of(atom)), None)


class _AtomicMap(Walker):
    __slots__ = ("_all_kinds", "_fits_all", "_is_flat", "_kind_of", "_members", "_of", "_other", "_shapes")

    def __init__(self, atom: Atom, of: MapType) -> None:
        super().__init__(atom)
        self._fits_all = atom.fits_all
        self._of = of
        # Name of a declared scalar -> the class that nearly all of its values have.
        self._kind_of = {name: kind for name, member in of.fields.items() if (kind := _most_likely(member)) is not None}.get
        # The classes of the values in a map of scalars, such as labels.
        kinds = frozenset() if of.fields else _classes_of(of.element)
        self._all_kinds = kinds | {type(None)} if kinds else None
        # If all members are declared scalars, the node depends only on the names of a value's members.
        self._is_flat = of.element is None and all(member.list is None and member.map is None for member in of.fields.values())
        self._shapes: dict[tuple[str, ...], FieldSet] = {}
        self._members: dict[str, tuple[str, Walker]] = {}
        self._other: Walker | None = None

    def fits(self, value: Any, allow_duplicates: bool) -> bool:
        if value.__class__ is not dict:
            return value is None
        if self._fits_all:
            return True
        if self._all_kinds is not None:
            return self._all_kinds.issuperset(map(type, value.values()))
        return self.fit((value,), allow_duplicates)

    def fit(self, values: Iterable[Any], allow_duplicates: bool) -> bool:
        """Whether all values fit. There is one call for all of them, since a call for each would double the time."""
        kind_of = self._kind_of
        for value in values:
            if value.__class__ is not dict:
                if value is not None:
                    return False
                continue
            for name, member in value.items():
                if member.__class__ is not kind_of(name) and not self._member_fits(name, member, allow_duplicates):
                    return False
        return True

    def _member_fits(self, name: str, member: Any, allow_duplicates: bool) -> bool:
        atom = self._of.of(name)
        return atom is not None and walker_of(atom).fits(member, allow_duplicates)

    def _member(self, name: str) -> tuple[str, Walker]:
        """(path element, walker) of a member. Raises Misfit if the type does not have it."""
        found = self._members.get(name)
        if found is not None:
            return found
        declared = self._of.fields.get(name)
        if declared is not None:
            found = self._members[name] = (fieldset.field(name), walker_of(declared))
            return found
        # Not kept, since clients choose these names.
        if self._other is None:
            if self._of.element is None:
                raise Misfit
            self._other = walker_of(self._of.element)
        return f"f:{name}", self._other


class _Map(_AtomicMap):
    """A walker of maps that are owned by their members."""

    __slots__ = ()

    def changes(self, old: Any, new: Any) -> Changes | None:
        if self._is_textual and old == new:
            return None
        before, after = _map(old), _map(new)
        if not before and not after:
            return None if old == new else _MODIFIED
        removed: JSONObject = {}
        modified: JSONObject = {}
        added: JSONObject = {}
        for name, member in after.items():
            ours = before.get(name, ABSENT)
            if ours is member:
                continue
            kind = member.__class__
            if kind is ours.__class__ and kind in _SCALARS and ours == member:
                continue
            element, walker = self._member(name)
            if ours is ABSENT:
                added[element] = _LEAF if kind in _SCALARS else walker.whole(member)
            elif (found := walker.changes(ours, member)) is not None:
                _take(element, found, removed, modified, added)
        if not before.keys() <= after.keys():
            self._find_removed(before, after, removed)
        if not (removed or modified or added):
            return None
        return removed or None, modified or None, added or None

    def _find_removed(self, before: JSONObject, after: JSONObject, removed: JSONObject) -> None:
        for name, member in before.items():
            if name not in after:
                if not self._member_fits(name, member, True):
                    raise Misfit
                element, walker = self._member(name)
                removed[element] = walker.whole(member)

    def whole(self, value: Any) -> FieldSet:
        if not value or value.__class__ is not dict:
            return _LEAF
        if self._is_flat:
            names = tuple(value)
            return self._shapes.get(names) or self._shape(names)
        out: JSONObject = {".": _LEAF}
        known = self._members
        for name, member in value.items():
            element, walker = known.get(name) or self._member(name)
            out[element] = _LEAF if member.__class__ in _SCALARS else walker.whole(member)
        return out

    def _shape(self, names: tuple[str, ...]) -> FieldSet:
        """The node of a flat map with these members. Items of a list have few sets of members, so they share nodes."""
        made = {".": _LEAF, **{self._member(name)[0]: _LEAF for name in names}}
        if len(self._shapes) < _SHAPES:
            self._shapes[names] = made
        return made

    def node_of_item(self, value: Any) -> FieldSet:
        return self.whole(value) if self._is_flat else super().node_of_item(value)

    def fields(self, value: Any) -> FieldSet | None:
        if not value or value.__class__ is not dict:
            return None
        out: JSONObject = {}
        declared, known = self._of.fields, self._members
        for name, member in value.items():
            element, walker = known.get(name) or self._member(name)
            # Null and empty maps have no leaves that imply them.
            is_leaf = member.__class__ in _SCALARS or member is None or member == {}
            node = _LEAF if is_leaf else walker.fields(member)
            if name not in declared:
                # The content of an undeclared field does not imply the field.
                node = fieldset.with_member(node)
            if node is not None:
                out[element] = node
        return out or None

    def merge(self, live: Any, applied: Any) -> Any:
        if self._is_textual and live == applied:
            return live
        before, after = _map(live), _map(applied)
        if not before or not after:
            self._check(live)
            # If both are empty, the applied one decides between empty and null.
            return live if before else applied
        out = before
        for name, member in after.items():
            ours = before.get(name, ABSENT)
            if ours is ABSENT:
                merged = member
            else:
                kind = member.__class__
                if kind is ours.__class__ and kind in _EXACT and ours == member:
                    continue
                merged = self._member(name)[1].merge(ours, member)
                if merged is ours:
                    continue
            if out is before:
                out = dict(before)
            out[name] = merged
        if not before.keys() <= after.keys():
            self._check({name: member for name, member in before.items() if name not in after})
        return out


def _map(value: Any) -> JSONObject:
    if value.__class__ is dict:
        return value
    if value is None:
        return _NO_MEMBERS
    raise Misfit


def _take(element: str, found: Changes, removed: JSONObject, modified: JSONObject, added: JSONObject) -> None:
    if found[0] is not None:
        removed[element] = found[0]
    if found[1] is not None:
        modified[element] = found[1]
    if found[2] is not None:
        added[element] = found[2]


class _AtomicList(Walker):
    __slots__ = ("_element", "_fits_all", "_item", "_kinds")

    def __init__(self, atom: Atom, of: ListType) -> None:
        super().__init__(atom)
        self._fits_all = atom.fits_all
        self._element = of.element
        self._item: Walker | None = None
        classes = _classes_of(of.element)
        self._kinds = classes | {type(None)} if classes else None

    def fits(self, value: Any, allow_duplicates: bool) -> bool:
        if value.__class__ is not list:
            return value is None
        if self._fits_all:
            return True
        if self._kinds is not None:
            return self._kinds.issuperset(map(type, value))
        walker = self._walker()
        if isinstance(walker, _AtomicMap):
            return walker.fit(value, allow_duplicates)
        item_fits = walker.fits
        for item in value:  # noqa: SIM110  -- all() of a generator takes 1.5 times as long
            if not item_fits(item, allow_duplicates):
                return False
        return True

    def _walker(self) -> Walker:
        if self._item is None:
            self._item = walker_of(self._element)
        return self._item


class ListWalker(_AtomicList):
    """A walker of lists that are owned by their items. A token identifies an item: in a set the item itself, otherwise the
    values of its keys.

    Tokens are strings and integers, or tuples of these. All other items are left to the plain form.
    """

    __slots__ = ("_defaults", "_head", "_keys")

    def __init__(self, atom: Atom, of: ListType) -> None:
        super().__init__(atom, of)
        self._keys = of.keys
        defaults: Mapping[str, Any] = {} if of.element.map is None else of.element.map.defaults
        self._defaults = [defaults.get(name) for name in of.keys]
        self._head = fieldset.key({of.keys[0]: ""})[:-2] if len(of.keys) == 1 else ""

    def _tokens(self, items: list[Any]) -> list[Any]:
        """The token of each item. Raises Misfit."""
        if not self._keys:
            return _checked_tokens(items)
        try:
            columns = [
                _checked_tokens([item.get(name, default) for item in items])
                for name, default in zip(self._keys, self._defaults, strict=True)
            ]
        except AttributeError:
            raise Misfit from None
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def elements(self, items: list[Any]) -> list[str]:
        """The path element of each item. Raises Misfit."""
        return [self._name(token) for token in self._tokens(items)]

    def _by_token(self, items: list[Any]) -> dict[Any, Any]:
        """Token -> item, in the list's order. Raises Misfit, also if two items have the same token."""
        found = dict(zip(self._tokens(items), items, strict=True))
        if len(found) < len(items):
            raise Misfit
        return found

    def _name(self, token: Any) -> str:
        """The path element of an item."""
        if not self._keys:
            return fieldset.value(token)
        if self._head and token.__class__ is str and fieldset.is_plain(token):
            return f'{self._head}{token}"}}'
        return fieldset.key(dict(zip(self._keys, token if len(self._keys) > 1 else (token,), strict=True)))

    def fits(self, value: Any, allow_duplicates: bool) -> bool:
        if not value or value.__class__ is not list:
            return value is None or value == []
        try:
            tokens = self._tokens(value)
        except Misfit:
            return False
        if not allow_duplicates and len(set(tokens)) < len(tokens):
            return False
        return super().fits(value, allow_duplicates)

    def changes(self, old: Any, new: Any) -> Changes | None:
        if self._is_textual and old == new:
            return None
        before, after = self._by_token(_list(old)), self._by_token(_list(new))
        if not before and not after:
            return None if old == new else _MODIFIED
        walker = self._walker()
        removed: JSONObject = {}
        modified: JSONObject = {}
        added: JSONObject = {}
        for token, item in after.items():
            ours = before.get(token, ABSENT)
            if ours is ABSENT:
                added[self._name(token)] = walker.whole(item)
            elif ours is not item and (found := walker.changes(ours, item)) is not None:
                _take(self._name(token), found, removed, modified, added)
        for token, item in before.items():
            if token not in after:
                if not walker.fits(item, True):
                    raise Misfit
                removed[self._name(token)] = walker.whole(item)
        if not (removed or modified or added):
            return None
        return removed or None, modified or None, added or None

    def whole(self, value: Any) -> FieldSet:
        if not value or value.__class__ is not list:
            return _LEAF
        out: JSONObject = {".": _LEAF}
        name, whole = self._name, self._walker().whole
        for token, item in self._by_token(value).items():
            out[name(token)] = whole(item)
        return out

    def fields(self, value: Any) -> FieldSet | None:
        if not value or value.__class__ is not list:
            return None
        name, node_of = self._name, self._walker().node_of_item
        return {name(token): node_of(item) for token, item in self._by_token(value).items()}

    def merge(self, live: Any, applied: Any) -> Any:
        if self._is_same(live, applied):
            return live
        if not live or not applied:
            self._check(live)
            return live if live else applied
        before, after = self._by_token(_list(live)), self._by_token(_list(applied))
        tokens, given = list(before), list(after)
        order = tokens if tokens == given else [token for token, _ in woven(tokens, given)]
        walker = self._walker()
        out: list[Any] = []
        is_same = order == tokens
        for token in order:
            ours, theirs = before.get(token, ABSENT), after.get(token, ABSENT)
            merged = theirs
            if theirs is ABSENT:
                if not walker.fits(ours, True):
                    raise Misfit
                merged = ours
            elif ours is not ABSENT:
                merged = walker.merge(ours, theirs)
            is_same = is_same and merged is ours
            out.append(merged)
        return live if is_same else out


_TOKENS = frozenset((str, int))


def _checked_tokens(tokens: list[Any]) -> list[Any]:
    if not _TOKENS.issuperset(map(type, tokens)):
        raise Misfit
    return tokens


def _list(value: Any) -> list[Any]:
    if value.__class__ is list:
        return value
    if value is None:
        return []
    raise Misfit


class _Either(Walker):
    """A walker of values that may be of several kinds. Each value is handled by the walker of its kind."""

    __slots__ = ("_by_class", "_fits_all")

    def __init__(self, atom: Atom, kinds: list[Walker]) -> None:
        super().__init__(atom)
        self._fits_all = atom.fits_all
        # Null counts as the first kind.
        self._by_class: dict[type, Walker] = {type(None): kinds[0]}
        for kind in kinds:
            if isinstance(kind, _Scalar):
                self._by_class |= dict.fromkeys(_SCALARS, kind)
            else:
                self._by_class[dict if isinstance(kind, _AtomicMap) else list] = kind

    def fits(self, value: Any, allow_duplicates: bool) -> bool:
        if self._fits_all:
            return True
        kind = self._by_class.get(value.__class__)
        return kind is not None and kind.fits(value, allow_duplicates)

    def changes(self, old: Any, new: Any) -> Changes | None:
        before, after = self._kind(old), self._kind(new)
        if before is after:
            return before.changes(old, new)
        # If the kind changes, the old fields are removed and the new ones added; what is owned as a whole is modified.
        gone = None if old is None else before.changes(old, None)
        come = None if new is None else after.changes(None, new)
        removed, modified = (gone or _MODIFIED)[:2]
        _, again, added = come or _MODIFIED
        return removed, modified if again is None else again, added

    def whole(self, value: Any) -> FieldSet:
        return self._kind(value).whole(value)

    def fields(self, value: Any) -> FieldSet | None:
        return self._kind(value).fields(value)

    def merge(self, live: Any, applied: Any) -> Any:
        kind = self._kind(applied)
        if self._kind(live) is kind:
            return kind.merge(live, applied)
        self._check(live)
        return applied

    def _kind(self, value: Any) -> Walker:
        kind = self._by_class.get(value.__class__)
        if kind is None:
            raise Misfit
        return kind


def woven(left: Sequence[T], right: Sequence[T]) -> Iterator[tuple[T, int]]:
    """The order of the items of two merged lists, given and yielded as tokens; none may be in `right` twice.

    Items in both have the order of `right`; items only in `left` keep their places. Yields (token, its index in `left` if only
    `left` has it, else -1).
    """
    in_left, in_right = set(left), set(right)
    shared = iter([token for token in right if token in in_left])
    following = next(shared, None)
    taken: set[T] = set()
    at_left = at_right = 0
    while at_left < len(left) or at_right < len(right):
        if at_left < len(left):
            token = left[at_left]
            if at_right < len(right) and token == right[at_right]:
                taken.add(token)
                yield token, -1
                at_left, at_right = at_left + 1, at_right + 1
                following = next(shared, None)
                continue
            if at_right < len(right) and token in in_right and following is not None and following != token:
                at_left += 1  # a shared item, which comes later
                continue
            if token not in in_right:
                yield token, at_left
                at_left += 1
                continue
            if token in taken:
                at_left += 1
        if at_right < len(right):
            token = right[at_right]
            taken.add(token)
            yield token, -1
            at_right += 1
            if following == token:
                following = next(shared, None)
