"""Label and field selectors: parsing, matching, and their requirements for an authorizer.

A selector is parsed once for a request and matched against every object and event of a list or watch, so it is compiled to one
function. Pure.
Source: k8s.io/apimachinery pkg/labels/selector.go, pkg/fields/selector.go, pkg/apis/meta/v1/helpers.go, v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from aggserver.meta import field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.golang import INT64_MAX, INT64_MIN
from aggserver.meta.json_types import JSONObject
from aggserver.meta.names import label_value, path_segment_name, qualified_name

__all__ = ["FieldSelector", "LabelSelector", "Requirement", "SelectorError", "exact_value", "single_name"]


class SelectorError(ValueError):
    """The selector can't be parsed. Its text is upstream's; the handlers respond with 400."""


class Requirement(NamedTuple):
    """One condition of a selector; all must hold. operator: In, NotIn, Exists, DoesNotExist, and for labels also Gt and Lt.

    A SubjectAccessReview has only the first four; leaving out the others makes it ask for broader access.
    """

    key: str
    operator: str
    values: tuple[str, ...]


# Selectors that are kept once they are parsed, and the most characters of such a one: 4 MB at most.
_KNOWN, _SHORT = 1000, 300

_Matcher = Callable[[Mapping[str, str]], bool]


def _conjunction(matchers: Sequence[_Matcher]) -> _Matcher:
    if len(matchers) == 1:
        return matchers[0]
    if not matchers:
        return lambda values: True
    return lambda values: all(matcher(values) for matcher in matchers)


# --- labels ---

_SYMBOLS = "=!(),><"
_WORDS = frozenset({"in", "notin"})
# An identifier consists of any characters except symbols and spaces.
_LEXEME = re.compile(rf"(==|!=|[{re.escape(_SYMBOLS)}])|([^{re.escape(_SYMBOLS)} \t\r\n]+)")
_COMPARISONS = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn", ">": "Gt", "<": "Lt"}
_BINARY = "in, notin, =, ==, !=, gt, lt"
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_VALUES = Path("values")
_END = ("", False)


@dataclass(frozen=True, slots=True)
class _Term:
    """A requirement as written. written: the operator; '' for a bare key, `!` for a negated one. values: sorted."""

    key: str
    written: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        if self.written in ("", "!"):
            return self.written + self.key
        values = ",".join(self.values)
        return f"{self.key} {self.written} ({values})" if self.written in _WORDS else f"{self.key}{self.written}{values}"

    def requirement(self) -> Requirement:
        operator = "Exists" if not self.written else "DoesNotExist" if self.written == "!" else _COMPARISONS[self.written]
        return Requirement(self.key, operator, self.values)


class LabelSelector:
    """`a=b,c!=d,e in (f,g),h,!i,j>1`: all must hold. Immutable; `str()` is the canonical form, sorted by key."""

    __slots__ = ("_hash", "_terms", "empty", "matches")

    def __init__(self, terms: Iterable[_Term]) -> None:
        self._terms = tuple(sorted(terms, key=lambda term: term.key))
        self._hash = hash(self._terms)
        # Whether it selects everything, so that labels need not be read.
        self.empty = not self._terms
        # (labels) -> bool.
        self.matches: _Matcher = _conjunction([_label_matcher(term.requirement()) for term in self._terms])

    @staticmethod
    def parse(text: str) -> LabelSelector:
        """Parse a label selector; '' selects everything. Raises SelectorError."""
        return _known_labels(text) if len(text) <= _SHORT else LabelSelector(_Parser(text).parse())

    @classmethod
    def from_object(cls, selector: Mapping[str, Any]) -> LabelSelector:
        """Parse a LabelSelector object (matchLabels, matchExpressions). Raises SelectorError. An empty one selects everything."""
        terms = [_checked_term(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
        for expression in selector.get("matchExpressions") or ():
            operator = expression.get("operator", "")
            written = {"In": "in", "NotIn": "notin", "Exists": "", "DoesNotExist": "!"}.get(operator)
            if written is None:
                raise SelectorError(f"{field.quote(operator)} is not a valid label selector operator")
            terms.append(_checked_term(expression.get("key", ""), written, tuple(expression.get("values") or ())))
        return cls(terms)

    def to_object(self) -> JSONObject:
        """The LabelSelector object of what is written. Raises SelectorError for `<` and `>`, which it has no operators for.

        Source: k8s.io/apimachinery pkg/apis/meta/v1/helpers.go (ParseToLabelSelector), v0.36.3.
        """
        labels = {term.key: term.values[0] for term in self._terms if term.written in ("=", "==")}
        expressions = []
        for term in self._terms:
            if term.written in ("=", "=="):
                continue
            if term.written in ("<", ">"):
                raise SelectorError(f"{field.quote(term.written)} isn't supported in label selectors")
            requirement = term.requirement()
            values = {"values": list(requirement.values)} if requirement.values else {}
            expressions.append({"key": term.key, "operator": requirement.operator, **values})
        return ({"matchLabels": labels} if labels else {}) | ({"matchExpressions": expressions} if expressions else {})

    def requirements(self) -> list[Requirement]:
        return [term.requirement() for term in self._terms]

    def __str__(self) -> str:
        return ",".join(map(str, self._terms))

    def __repr__(self) -> str:
        return f"LabelSelector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelSelector) and other._terms == self._terms

    def __hash__(self) -> int:
        return self._hash


def _label_matcher(requirement: Requirement) -> _Matcher:
    key, operator, values = requirement
    wanted = frozenset(values)
    if operator == "In":
        if len(values) == 1:
            only = values[0]
            return lambda labels: labels.get(key) == only
        return lambda labels: labels.get(key) in wanted
    if operator == "NotIn":
        return lambda labels: labels.get(key) not in wanted
    if operator == "Exists":
        return lambda labels: key in labels
    if operator == "DoesNotExist":
        return lambda labels: key not in labels
    return _number_matcher(key, operator, int(values[0]))


def _number_matcher(key: str, operator: str, bound: int) -> _Matcher:
    def matches(labels: Mapping[str, str]) -> bool:
        number = _parse_int(labels.get(key, ""))
        if number is None:
            return False
        return number > bound if operator == "Gt" else number < bound

    return matches


def _parse_int(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if INT64_MIN <= number <= INT64_MAX else None


def _checked_term(key: str, written: str, values: tuple[str, ...]) -> _Term:
    """The term, if it is valid. Raises SelectorError with as many of its errors as fit, since each repeats the key."""
    problems = _problems(key, written, values)
    first = next(problems, None)
    if first is not None:
        shown = list(dict.fromkeys(field.first_that_fit(map(str, chain((first,), problems)))))
        raise SelectorError(shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]")
    return _Term(key, written, tuple(sorted(set(values))))


def _problems(key: str, written: str, values: tuple[str, ...]) -> Iterator[FieldError]:
    if texts := qualified_name(key):
        yield field.invalid(Path("key"), key, "; ".join(texts))
    if written in _WORDS and not values:
        yield field.invalid(_VALUES, list(values), "for 'in', 'notin' operators, values set can't be empty")
    if written in ("", "!") and values:
        yield field.invalid(_VALUES, list(values), "values set must be empty for exists and does not exist")
    if written in (">", "<") and _parse_int(values[0]) is None:
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        yield field.invalid(_VALUES.index(0), values[0], text)
    for index, value in enumerate(values):
        if texts := label_value(value):
            yield field.invalid(_VALUES.index(index).key(key), value, "; ".join(texts))


class _Parser:
    """A recursive descent parser over the lexemes. `in` and `notin` are operators only where one is expected."""

    def __init__(self, text: str) -> None:
        # (lexeme, whether it may be an identifier). The matches leave out spaces. Two ends, so that peeking past one is safe.
        self._lexemes = [(symbol or word, not symbol) for symbol, word in _LEXEME.findall(text)]
        self._lexemes += [_END] * 2
        self._position = 0

    def parse(self) -> list[_Term]:
        terms: list[_Term] = []
        lexeme, is_word = self._peek()
        if not lexeme and not is_word:
            return terms
        if not is_word and lexeme != "!":
            raise SelectorError(f"found '{lexeme}', expected: !, identifier, or 'end of string'")
        while True:
            terms.append(self._requirement())
            lexeme, is_word = self._next()
            if not lexeme and not is_word:
                return terms
            if lexeme != "," or is_word:
                raise SelectorError(f"found '{lexeme}', expected: ',' or 'end of string'")
            lexeme, is_word = self._peek()
            if not is_word and lexeme != "!":
                raise SelectorError(f"found '{lexeme}', expected: identifier after ','")

    def _requirement(self) -> _Term:
        try:
            key, written = self._key()
            if written is not None:
                return _checked_term(key, written, ())
            operator, is_word = self._next()
            if (is_word and operator not in _WORDS) or operator not in _COMPARISONS:
                raise SelectorError(f"found '{operator}', expected: {_BINARY}")
            values = self._values() if operator in _WORDS else self._exact_value()
            return _checked_term(key, operator, tuple(sorted(values)))
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from None

    def _key(self) -> tuple[str, str | None]:
        """The key, and the operator of a requirement without values."""
        lexeme, is_word = self._next()
        negated = lexeme == "!" and not is_word
        if negated:
            lexeme, is_word = self._next()
        if not is_word:
            raise SelectorError(f"found '{lexeme}', expected: identifier")
        if texts := qualified_name(lexeme):
            raise SelectorError(str(field.invalid(Path(), lexeme, "; ".join(texts))))
        if negated:
            return lexeme, "!"
        follows, follows_word = self._peek()
        return lexeme, "" if follows in ("", ",") and not follows_word else None

    def _values(self) -> set[str]:
        lexeme, is_word = self._next()
        if lexeme != "(" or is_word:
            raise SelectorError(f"found '{lexeme}' expected: '('")
        lexeme, is_word = self._peek()
        if lexeme == ")":
            self._next()
            return {""}
        if not is_word and lexeme != ",":
            raise SelectorError(f"found '{lexeme}', expected: ',', ')' or identifier")
        values = self._identifiers()
        self._next()  # the closing parenthesis
        return values

    def _identifiers(self) -> set[str]:
        """Parse values up to the closing parenthesis. A missing value, as between two commas, is an empty one."""
        values: set[str] = set()
        while True:
            lexeme, is_word = self._next()
            follows, follows_word = self._peek()
            if is_word:
                values.add(lexeme)
                if follows == ")":
                    return values
                if follows != "," or follows_word:
                    raise SelectorError(f"found '{follows}', expected: ',' or ')'")
            elif lexeme == ",":
                if not values or follows in (")", ","):
                    values.add("")
                if follows == ")":
                    return values
            else:
                raise SelectorError(f"found '{lexeme}', expected: ',', or identifier")

    def _exact_value(self) -> set[str]:
        lexeme, is_word = self._peek()
        if not is_word and lexeme in ("", ","):
            return {""}
        self._next()
        if not is_word:
            raise SelectorError(f"found '{lexeme}', expected: identifier")
        return {lexeme}

    def _peek(self) -> tuple[str, bool]:
        return self._lexemes[self._position]

    def _next(self) -> tuple[str, bool]:
        self._position += 1
        return self._lexemes[self._position - 1]


# --- fields ---

_TERM = re.compile(r"(?:[^\\,]|\\.|\\\Z)+", re.DOTALL)
_OPERATOR = re.compile(r"!=|==|=")
_SPECIAL = re.compile(r"\\(.?)|[,=]", re.DOTALL)
_ESCAPED = str.maketrans({"\\": r"\\", ",": r"\,", "=": r"\="})


class FieldSelector:
    r"""`metadata.name=a,spec.x!=b`: all must hold; a missing field counts as ''. In values, `\` escapes `\`, `,` and `=`."""

    __slots__ = ("_hash", "_terms", "empty", "matches")

    def __init__(self, terms: Sequence[tuple[str, bool, str]]) -> None:
        """terms: (field, whether it must be equal, value)."""
        self._terms = tuple(terms)
        self._hash = hash(self._terms)
        # Whether it selects everything.
        self.empty = not self._terms
        # (fields) -> bool.
        self.matches: _Matcher = _conjunction([_field_matcher(*term) for term in self._terms])

    @staticmethod
    def parse(text: str) -> FieldSelector:
        """Parse a field selector; '' selects everything. Raises SelectorError."""
        return _known_fields(text) if len(text) <= _SHORT else FieldSelector(_field_terms(text))

    def fields(self) -> list[str]:
        """The fields it uses, in order; the caller checks that they are selectable."""
        return [name for name, _, _ in self._terms]

    def requirements(self) -> list[Requirement]:
        return [Requirement(name, "In" if equal else "NotIn", (value,)) for name, equal, value in self._terms]

    def __str__(self) -> str:
        return ",".join(f"{name}{'=' if equal else '!='}{value.translate(_ESCAPED)}" for name, equal, value in self._terms)

    def __repr__(self) -> str:
        return f"FieldSelector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSelector) and other._terms == self._terms

    def __hash__(self) -> int:
        return self._hash


def _field_matcher(name: str, equal: bool, value: str) -> _Matcher:
    if equal:
        return lambda fields: fields.get(name, "") == value
    return lambda fields: fields.get(name, "") != value


def _field_terms(text: str) -> list[tuple[str, bool, str]]:
    terms = []
    for term in sorted(_split_terms(text)):
        match = _OPERATOR.search(term)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        name, value = term[: match.start()], _unescape(term[match.end() :])
        if name or value:
            terms.append((name, match.group() != "!=", value))
    return terms


# Clients ask for the same few selectors again and again.


@lru_cache(_KNOWN)
def _known_labels(text: str) -> LabelSelector:
    return LabelSelector(_Parser(text).parse())


@lru_cache(_KNOWN)
def _known_fields(text: str) -> FieldSelector:
    return FieldSelector(_field_terms(text))


def _split_terms(text: str) -> list[str]:
    return _TERM.findall(text)


def _unescape(value: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped is None:
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(match[0])}")
        if escaped not in ("\\", ",", "="):
            raise SelectorError(f"invalid field selector: invalid escape sequence: {match[0]}")
        return escaped

    return _SPECIAL.sub(plain, value)


def exact_value(selector: FieldSelector, name: str) -> str:
    """The value that the selector requires for field `name`; '' if none."""
    for key, operator, values in selector.requirements():
        if key == name and operator == "In":
            return values[0]
    return ""


def single_name(text: str) -> str:
    """The metadata.name that a field selector requires; '' if it requires none, can't be parsed or is no valid name."""
    if not text:
        return ""
    try:
        name = exact_value(FieldSelector.parse(text), "metadata.name")
    except SelectorError:
        return ""
    return "" if path_segment_name(name) else name
