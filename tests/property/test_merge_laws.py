"""Laws of merging: walkers come to what the plain forms come to, sets are sets, and what is passed over would change nothing."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aggserver.merge import comparing, fieldset, managers, merging, removing, typed
from aggserver.merge.atom import DEDUCED, Atom, of_resource, of_schema
from aggserver.merge.fieldset import FieldSet, Path
from aggserver.merge.managed_fields import FieldManager
from aggserver.merge.managers import ConflictsError, FieldUpdater, Manager, Managers, Typed
from aggserver.merge.typed import TypedError
from aggserver.merge.walker import Misfit, walker_of
from aggserver.meta.errors import StatusError
from aggserver.schema import structural
from tests.merge import worlds

JSONObject = dict[str, Any]
CHANCES = st.randoms(use_true_random=False)


def a_type(chance: random.Random) -> tuple[JSONObject | None, Atom]:
    schema = worlds.object_schema(chance)
    return schema, DEDUCED if schema is None else of_schema(structural.compile(schema))


def varied(chance: random.Random, value: Any) -> Any:
    """The value with some of its parts left out, doubled or put for others that Python takes for equal."""
    if isinstance(value, dict):
        return {name: varied(chance, member) for name, member in value.items() if chance.random() < 0.9}
    if isinstance(value, list):
        items = [varied(chance, item) for item in value if chance.random() < 0.9]
        return items + items[: chance.random() < 0.05]
    if chance.random() < 0.9:
        return value
    return chance.choice([value, None, 1, 1.0, True, "x", [], {}, -0.0])


def two_objects(chance: random.Random) -> tuple[Atom, JSONObject, JSONObject]:
    schema, atom = a_type(chance)
    old = worlds.an_object(chance, schema, wrong=chance.choice([0.0, 0.02]))
    new = varied(chance, old) if chance.random() < 0.7 else worlds.an_object(chance, schema)
    return atom, old, new


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def fits(value: Any, atom: Atom, *, allow_duplicates: bool = True) -> bool:
    try:
        typed.plain_validate(value, atom, allow_duplicates=allow_duplicates)
    except TypedError:
        return False
    return True


@given(CHANCES, st.booleans())
def test_what_a_walker_takes_for_fitting_fits(chance: random.Random, allow_duplicates: bool) -> None:
    atom, old, new = two_objects(chance)
    for value in (old, new):
        before = copy.deepcopy(value)
        if walker_of(atom).fits(value, allow_duplicates):
            assert fits(value, atom, allow_duplicates=allow_duplicates)
        assert value == before


@given(CHANCES)
def test_walkers_compare_as_the_plain_form_does(chance: random.Random) -> None:
    atom, old, new = two_objects(chance)
    if not fits(new, atom):
        return
    before = copy.deepcopy((old, new))
    try:
        found = walker_of(atom).changes(old, new)
    except Misfit:
        return
    finally:
        assert (old, new) == before
    assert fits(old, atom)
    plain = comparing.plain_compare(old, new, atom)
    expected = [fieldset.ordered(each) for each in (plain.removed, plain.modified, plain.added)]
    assert [fieldset.ordered(each or {}) for each in found or (None, None, None)] == expected


@given(CHANCES)
def test_walkers_merge_as_the_plain_form_does(chance: random.Random) -> None:
    atom, live, applied = two_objects(chance)
    if not fits(applied, atom, allow_duplicates=False):
        return
    before = text((live, applied))
    try:
        merged = walker_of(atom).merge(live, applied)
    except Misfit:
        return
    finally:
        assert text((live, applied)) == before
    assert fits(live, atom)
    # What is empty at the root is nothing to the plain form.
    assert text(merged or None) == text(merging.plain_merge(live, applied, atom) or None)
    if text(merged) == text(live) and "0.0" not in text(live):
        assert walker_of(atom).changes(live, merged) is None


@given(CHANCES)
def test_walkers_tell_fields_as_the_plain_form_does(chance: random.Random) -> None:
    atom, value, _ = two_objects(chance)
    if not fits(value, atom):
        return
    try:
        found = walker_of(atom).fields(value)
    except Misfit:
        return
    assert fieldset.ordered(found or {}) == fieldset.ordered(typed.plain_field_set(value, atom))


def test_walkers_know_nearly_all_that_fits() -> None:
    known = asked = 0
    for seed in range(300):
        chance = random.Random(seed)
        schema, atom = a_type(chance)
        old, new = (without_nulls(worlds.an_object(chance, schema)) for _ in range(2))
        if all(fits(value, atom, allow_duplicates=False) for value in (old, new)):
            asked += 1
            try:
                walker_of(atom).changes(old, new)
                walker_of(atom).merge(old, new)
                walker_of(atom).fields(new)
            except Misfit:
                continue
            known += 1
    assert asked > 200
    # What is left are sets of booleans and keys that are fractions.
    assert known > 0.9 * asked


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return [without_nulls(item) for item in value if item is not None] if isinstance(value, list) else value


def history(chance: random.Random) -> Iterator[str]:
    """What comes of some applies and updates, one step after the other."""
    schema, atom = a_type(chance)
    updater = FieldUpdater(lambda made, _: made, {})
    live = Typed({}, atom, "v1")
    owners: Managers = {}
    for _ in range(6):
        applier = Manager(chance.choice("ab"), "Apply")
        value = worlds.an_object(chance, schema)
        if not fits(value, atom, allow_duplicates=False):
            continue
        if chance.random() < 0.5:
            # As its last configuration with something more.
            value = value | live.value if fits(value | live.value, atom, allow_duplicates=False) else value
        new = Typed(value, atom, "v1")
        try:
            if chance.random() < 0.3:
                live, owners = new, updater.update(live, new, owners, Manager("c", "Update", "v1"))
            else:
                made, owners = updater.apply(live, new, dict(owners), applier, force=chance.random() < 0.7)
                live = made or live
        except (ConflictsError, TypedError) as error:
            yield f"{type(error).__name__} {error}"
        yield text([live.value, sorted((name, fieldset.ordered(owned.fields)) for name, owned in owners.items())])


def in_no_part(*_: Any) -> Typed:
    raise Misfit


@given(st.integers(0, 2**32))
@example(1756078582)  # an empty list, which has no fields, beside what is left out
@example(2488168054)  # the key of an item is left out, which has a default
def test_pruning_a_part_of_an_object_removes_what_pruning_the_whole_does(seed: int) -> None:
    told = list(history(random.Random(seed)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(managers, "_pruned_in_part", in_no_part)
        assert list(history(random.Random(seed))) == told


@given(CHANCES)
def test_stored_sets_are_in_order_whatever_becomes_of_them(chance: random.Random) -> None:
    schema = worlds.object_schema(chance)
    atom = of_resource(None if schema is None else structural.compile(schema))
    fields = FieldManager("v1", "Thing", lambda _: atom, lambda obj, _: obj)
    live: JSONObject | None = None
    for _ in range(5):
        value = worlds.an_object(chance, schema)
        new = value | {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}}
        name = chance.choice("abc")
        if chance.random() < 0.4:
            fields.update(live, new, name, f"2026-01-01T12:00:{chance.randint(10, 20)}Z")
        else:
            try:
                new = fields.apply(live, new, name, force=True, now="2026-01-01T12:00:00Z")
            except StatusError:
                continue
        for entry in new["metadata"].get("managedFields", ()):
            assert json.dumps(entry["fieldsV1"]) == json.dumps(fieldset.ordered(fieldset.parse(entry["fieldsV1"])))
        live = json.loads(json.dumps(new))


LEAVES = ["f:a", "f:b", 'k:{"a":1}', 'v:"x"', "v:2"]
# In an order, since sets have another one in each process.
PATHS = st.lists(st.lists(st.sampled_from(LEAVES), min_size=1, max_size=3).map(tuple), max_size=8, unique=True)


def set_of(wanted: list[Path]) -> FieldSet:
    given: JSONObject = {}
    for path in wanted:
        node = given
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return fieldset.parse(given)


def members(fields: FieldSet) -> set[Path]:
    assert fieldset.parse(fields) == fields, "not as sets are written"
    assert list(fieldset.ordered(fields)) == [element for element in LEAVES if element in fields]
    return set(fieldset.paths(fields))


@given(PATHS, PATHS)
def test_field_sets_are_sets(one: list[Path], other: list[Path]) -> None:
    ours, theirs = set_of(one), set_of(other)
    left, right = set(one), set(other)
    assert members(ours) == left
    before = copy.deepcopy((ours, theirs))
    assert members(fieldset.union(ours, theirs)) == left | right
    assert members(fieldset.intersection(ours, theirs)) == left & right
    assert members(fieldset.difference(ours, theirs)) == left - right
    below = {path for path in left if any(path[:end] in right for end in range(len(path) + 1))}
    assert members(fieldset.recursive_difference(ours, theirs)) == left - below
    assert (ours, theirs) == before
    if right <= left:
        assert fieldset.union(ours, theirs) is ours
    if not left & right:
        assert fieldset.difference(ours, theirs) is ours


@given(st.lists(PATHS, max_size=6))
def test_a_union_of_many(sets: list[list[Path]]) -> None:
    assert members(fieldset.union_of([set_of(each) for each in sets])) == set().union(*sets)


TEXTS = st.text(st.sampled_from('ab -!"\\/#é~0\n'), max_size=4)


@given(st.lists(TEXTS | st.integers(-2, 20), unique_by=repr, max_size=6), st.sampled_from(["name", "na me"]))
def test_paths_are_in_order(values: list[Any], name: str) -> None:
    fields = {fieldset.key({name: value}): {} for value in values}
    # Numbers are before texts.
    expected = sorted(values, key=lambda value: (isinstance(value, str), value))
    assert list(fieldset.paths(fields)) == [(fieldset.key({name: value}),) for value in expected]


@given(CHANCES)
def test_sets_of_the_same_schema_stay_as_they_are(chance: random.Random) -> None:
    atom, value, _ = two_objects(chance)
    if fits(value, atom):
        owned = typed.field_set(value, atom)
        assert removing.reconcile(owned, atom) is owned
