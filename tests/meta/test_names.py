import pytest

from aggserver.meta import names
from aggserver.meta.names import NameRule
from tests.meta.texts import LABEL, LABEL_1035, NAME, SUBDOMAIN, VALUE

OF_NAMES: dict[str, tuple[NameRule, str, bool, list[str]]] = {
    "subdomain": (names.dns1123_subdomain, "a-1.b.c", False, []),
    "longest subdomain": (names.dns1123_subdomain, "a" * 253, False, []),
    "long subdomain": (names.dns1123_subdomain, "a" * 254, False, ["must be no more than 253 characters"]),
    "no subdomain": (names.dns1123_subdomain, "A", False, [SUBDOMAIN]),
    "line break at the end": (names.dns1123_subdomain, "a\n", False, [SUBDOMAIN]),
    "bytes count": (names.dns1123_subdomain, "é" * 127, False, ["must be no more than 253 characters", SUBDOMAIN]),
    "dash at the end": (names.dns1123_subdomain, "a-", False, [SUBDOMAIN]),
    "dash at the end of a prefix": (names.dns1123_subdomain, "ab-", True, []),
    "a prefix that is wrong before its last two characters": (names.dns1123_subdomain, "_b-", True, [SUBDOMAIN]),
    "a prefix that is wrong long before its end": (names.dns1123_subdomain, "ab_cd-", True, [SUBDOMAIN]),
    "a prefix of one character": (names.dns1123_subdomain, "b-", True, []),
    "a prefix that is wrong where it is replaced": (names.dns1123_subdomain, "ab_-", True, []),
    "nothing but a dash": (names.dns1123_subdomain, "-", True, [SUBDOMAIN]),
    "label": (names.dns1123_label, "1-a", False, []),
    "long label": (names.dns1123_label, "a" * 64, False, ["must be no more than 63 characters"]),
    "dots": (names.dns1123_label, "a.b", False, ["must not contain dots"]),
    "no label": (names.dns1123_label, "a_b", False, [LABEL]),
    "prefix of a label": (names.dns1123_label, "ab-", True, []),
    "1035 label": (names.dns1035_label, "a-1", False, []),
    "digit in front": (names.dns1035_label, "1a", False, [LABEL_1035]),
    "long 1035 label": (names.dns1035_label, "a" * 64, False, ["must be no more than 63 characters"]),
    "prefix of a 1035 label": (names.dns1035_label, "ab-", True, []),
    "path segment": (names.path_segment_name, "A:b c", False, []),
    "dot": (names.path_segment_name, ".", False, ["may not be '.'"]),
    "dots as a name": (names.path_segment_name, "..", False, ["may not be '..'"]),
    "dot as a prefix": (names.path_segment_name, ".", True, []),
    "slash and percent": (names.path_segment_name, "a/%", False, ["may not contain '/'", "may not contain '%'"]),
}


@pytest.mark.parametrize(("rule", "value", "prefix", "texts"), OF_NAMES.values(), ids=OF_NAMES)
def test_names(rule: NameRule, value: str, prefix: bool, texts: list[str]) -> None:
    assert rule(value, prefix) == texts


QUALIFIED = {
    "name": ("My.name_1", []),
    "prefix": ("example.com/My.name", []),
    "empty": ("", ["name part must be non-empty", f"name part {NAME}"]),
    "empty prefix": ("/a", ["prefix part must be non-empty"]),
    "empty name": ("a/", ["name part must be non-empty", f"name part {NAME}"]),
    "bad prefix": ("A/a", [f"prefix part {SUBDOMAIN}"]),
    "long": ("a" * 64, ["name part must be no more than 63 bytes"]),
    "long prefix": ("a" * 254 + "/a", ["prefix part must be no more than 253 bytes"]),
    "two slashes": (
        "a/b/c",
        [f"a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
    ),
}


@pytest.mark.parametrize(("value", "texts"), QUALIFIED.values(), ids=QUALIFIED)
def test_qualified_name(value: str, texts: list[str]) -> None:
    assert names.qualified_name(value) == texts


LABEL_VALUES = {
    "empty": ("", []),
    "value": ("My_value.1", []),
    "long": ("a" * 64, ["must be no more than 63 bytes"]),
    "bad": ("a b", [VALUE]),
    "bad end": ("a-", [VALUE]),
}


@pytest.mark.parametrize(("value", "texts"), LABEL_VALUES.values(), ids=LABEL_VALUES)
def test_label_value(value: str, texts: list[str]) -> None:
    assert names.label_value(value) == texts
