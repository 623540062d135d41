"""Names of properties as identifiers, and back."""

from __future__ import annotations

import pytest

from aggserver.schema.escaping import escape, unescape

ESCAPED = {
    "a": "a",
    "_a1": "_a1",
    "a.b": "a__dot__b",
    "a-b/c": "a__dash__b__slash__c",
    ".a": "__dot__a",
    "-": "__dash__",
    "a_b": "a_b",
    "a__b": "a__underscores__b",
    "a___b": "a__underscores___b",
    "____": "__underscores____underscores__",
    "__dot__": "__underscores__dot__underscores__",
    "namespace": "__namespace__",
    "true": "__true__",
    "namespaces": "namespaces",
    "self": "self",
    "int": "int",
}
UNESCAPABLE = ("", "1a", "a b", "$a", "é", "a:b", "a\n")
NO_IDENTIFIERS = ("__other__", "a__other__", "__namespace__a")


@pytest.mark.parametrize("name", ESCAPED)
def test_escape(name: str) -> None:
    assert escape(name) == ESCAPED[name]
    assert unescape(ESCAPED[name]) == name


@pytest.mark.parametrize("name", UNESCAPABLE)
def test_names_without_an_identifier(name: str) -> None:
    assert escape(name) is None


@pytest.mark.parametrize("identifier", NO_IDENTIFIERS)
def test_identifiers_that_name_nothing(identifier: str) -> None:
    assert unescape(identifier) is None


def test_what_nothing_is_escaped_in_names_itself() -> None:
    assert unescape("a-b") == "a-b"
