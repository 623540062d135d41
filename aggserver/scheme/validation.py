"""Validation: the errors of required members, unsupported values and numbers out of range, for the types in the tables.

Each line of `tables/checks.txt` is a check of one member, found by `tests/scheme/checks.py` from the answers of a kube-apiserver.
A member that OpenAPI calls required is not checked if kube-apiserver accepts objects without it. The further checks that
kube-apiserver makes in Go code for each kind are not made here.

    core/v1.Container.name required            refused if it is missing; with the detail of the error, if it has one
    core/v1.Service.type one-of A,B            refused if it is another text
    rbac/v1.Subject.kind always A,B            also if it is missing
    core/v1.ServicePort.port range 1 65535 D   an integer that is less, or more (`-`: has no limit), with the detail D
Pure. Source: the answers of kube-apiserver v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path as File
from typing import Any

from aggserver.meta.field import FieldError, Path, invalid, not_supported, required
from aggserver.meta.json_types import JSONObject
from aggserver.scheme.types import Member, Type

__all__ = ["Rule", "validate", "validate_part"]

_CHECKS = File(__file__).with_name("tables") / "checks.txt"

# (value of a member, or None; whether it counts as missing in Go; its path) -> its error.
_Check = Callable[[Any, bool, Path], FieldError | None]
Rule = Callable[[Any, Path], Iterator[FieldError]]
"""(a struct, its path) -> all errors in it."""

# (struct, list or map, its path, see `validate`) -> all errors in it.
_Judge = Callable[[Any, Path, Mapping[str, Rule]], Iterator[FieldError]]

_NO_RULES: Mapping[str, Rule] = {}


def validate(obj: JSONObject, of: Type, rules: Mapping[str, Rule] = _NO_RULES) -> list[FieldError]:
    """The errors of a whole object, without its metadata and status, in the order of its type's members.

    of: the type of its kind. `decode_error` must find nothing; defaults must have been set.
    rules: by the name of a type, what judges its structs in place of the table.
    """
    judge = _judge(of)
    if judge is None:
        return []
    return list(judge({name: value for name, value in obj.items() if name not in ("metadata", "status")}, Path(), rules))


def validate_part(value: Any, of: Type, path: Path) -> Iterator[FieldError]:
    """The errors of a part of an object."""
    judge = _judge(of)
    return iter(()) if judge is None else judge(value, path, _NO_RULES)


@cache
def _checks() -> Mapping[str, Mapping[str, tuple[_Check, ...]]]:
    """The checks of the table, by the names of types and of their members."""
    found: dict[str, dict[str, tuple[_Check, ...]]] = {}
    for line in _CHECKS.read_text().splitlines():
        name, kind, *rest = line.split(" ", 2)
        of, _, member = name.rpartition(".")
        checks = found.setdefault(of, {})
        checks[member] = (*checks.get(member, ()), _MAKERS[kind]("".join(rest)))
    return found


def _required(detail: str) -> _Check:
    return lambda value, missing, path: required(path, detail) if missing else None


def _one_of(values: str, *, always: bool = False) -> _Check:
    supported = values.split(",")

    def check(value: Any, missing: bool, path: Path) -> FieldError | None:
        if value in supported or (missing and not always):
            return None
        return not_supported(path, value or "", supported)

    return check


def _range(words: str) -> _Check:
    least, most, detail = words.split(" ", 2)
    low, high = int(least), None if most == "-" else int(most)

    def check(value: Any, missing: bool, path: Path) -> FieldError | None:
        if value.__class__ is not int or (value >= low and (high is None or value <= high)):
            return None
        return invalid(path, value, detail)

    return check


_MAKERS: Mapping[str, Callable[[str], _Check]] = {
    "required": _required,
    "one-of": _one_of,
    "always": lambda values: _one_of(values, always=True),
    "range": _range,
}

_JUDGES: dict[Type, _Judge | None] = {}


def _judge(of: Type) -> _Judge | None:
    """The function that checks values of a type; None if nothing in the type is checked."""
    if of not in _JUDGES:
        _JUDGES[of] = _made(of) if _is_checked(of, set()) else None
    return _JUDGES[of]


def _is_checked(of: Type, seen: set[Type]) -> bool:
    if of in seen or of.kind not in ("struct", "list", "map") or of.name == "v1.ObjectMeta":
        return False
    seen.add(of)
    if of.element is not None:
        return _is_checked(of.element, seen)
    return of.full_name in _checks() or any(_is_checked(member.type, seen) for member in of.members.values())


def _made(of: Type) -> _Judge:
    if of.kind == "struct":
        return _of_struct(of)
    assert of.element is not None
    element, is_list = of.element, of.kind == "list"

    def judge(value: Any, path: Path, rules: Mapping[str, Rule]) -> Iterator[FieldError]:
        inner = _judge(element)
        assert inner is not None
        places = map(path.index, range(len(value))) if is_list else map(path.key, value)
        for place, item in zip(places, value if is_list else value.values(), strict=True):
            yield from inner(item, place, rules)

    return judge


def _of_struct(of: Type) -> _Judge:
    plans: list[tuple[Member, tuple[_Check, ...], _Judge | None]] | None = None

    def judge(value: Any, path: Path, rules: Mapping[str, Rule]) -> Iterator[FieldError]:
        nonlocal plans
        if (rule := rules.get(of.full_name)) is not None:
            yield from rule(value, path)
            return
        if plans is None:  # not earlier, since types contain themselves
            checks = _checks().get(of.full_name, {})
            each = [(member, checks.get(name, ()), _judge(member.type)) for name, member in of.members.items()]
            plans = [plan for plan in each if plan[1] or plan[2]]
        for member, checks_of_it, inside in plans:
            found = value.get(member.name)
            missing = found is None if member.pointer or member.type.kind in ("bool", "json") else not found
            if missing and member.omitempty:
                found = None
            errors = (check(found, missing, path.child(member.name)) for check in checks_of_it)
            if (error := next(filter(None, errors), None)) is not None:
                yield error
            elif found is not None and inside is not None:
                yield from inside(found, path.child(member.name), rules)

    return judge
