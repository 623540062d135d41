"""Texts that grow: each function that reads a text of a request, with each of a number of parts repeated, and each end.

Most of the texts mean nothing to most of the functions, but all are quick to try, and nobody has to think of the slow one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from aggserver.authentication import jws, requestheader
from aggserver.cel import conversions, lexer
from aggserver.cel import times as cel_times
from aggserver.cel.library import cidr, ip, named_format, semver, url
from aggserver.cel.library import quantity as cel_quantity
from aggserver.conversion import field_path
from aggserver.endpoints import negotiation, request_info
from aggserver.kinds import default_rules
from aggserver.merge import fieldset
from aggserver.meta import (
    codec,
    duration,
    golang,
    json_text,
    jsonpath,
    names,
    quantity,
    regexp,
    selectors,
    times,
    versions,
    yaml_text,
)
from aggserver.publish import gnostic_yaml
from aggserver.schema import constructs, escaping, format_values, formats
from aggserver.storage import keys
from aggserver.webhook import answers, ca_bundle
from tests.growth.measure import Case

# Characters of a text: what a header, a URL or a field has room for.
_CHARACTERS = 48_000


def _on_bytes(read: Callable[[bytes], object]) -> Callable[[str], object]:
    return lambda text: read(text.encode())


def _read_all(read: Callable[[str], Iterator[object]]) -> Callable[[str], object]:
    return lambda text: list(read(text))


def _duplicates(body: bytes) -> list[str]:
    """Only well-formed texts are looked through, as in a request."""
    codec.decode_checking_keys(body)
    return json_text.duplicate_fields(body)


READERS: dict[str, Callable[[str], object]] = {
    "label selector": selectors.LabelSelector.parse,
    "label selector, set": lambda text: selectors.LabelSelector.parse(f"a in ({text})"),
    "label selector, value": lambda text: selectors.LabelSelector.from_object({"matchLabels": {"a": text}}),
    "label selector, key": lambda text: selectors.LabelSelector.from_object({"matchLabels": {text: "a"}}),
    "field selector": selectors.FieldSelector.parse,
    "field selector, name": selectors.single_name,
    "quantity": quantity.canonical,
    "quantity, CEL": cel_quantity.IMPLEMENTATIONS["is_quantity_string"],
    "duration": duration.parse,
    "duration, lengths": duration.lengths,
    "time": times.parse_time,
    "time, micro": times.parse_micro_time,
    **{f"format {name}": check for name, check in formats.FORMATS.items()},
    **{f"format value {name}": parse for name, (parse, _) in format_values.PARSERS.items()},
    **{f"named format {name}": named.problems for name, named in named_format._FORMATS.items()},
    "name, subdomain": names.dns1123_subdomain,
    "name, label": names.dns1123_label,
    "name, 1035": names.dns1035_label,
    "name, prefix": lambda text: names.dns1123_subdomain(text, True),
    "name, qualified": names.qualified_name,
    "name, path": names.path_segment_name,
    "label value": names.label_value,
    "version": versions.sort_key,
    "group and version": versions.parse_group_version,
    "quoted": golang.quote,
    "integer": golang.parse_int,
    "unsigned integer": golang.parse_uint,
    "as JSON": golang.to_json,
    "JSON": _on_bytes(codec.decode_checking_keys),
    "JSON, syntax": _on_bytes(json_text.syntax_error),
    "JSON, duplicates": _on_bytes(_duplicates),
    "JSON, in a list": lambda text: codec.decode_checking_keys(f"[{text}".encode()),
    "JSON, in a map": lambda text: _duplicates(f'{{"a":{text}'.encode()),
    "YAML": _on_bytes(yaml_text.decode),
    "YAML, documents": _on_bytes(yaml_text.decode_all),
    "YAML, in a map": lambda text: yaml_text.decode(f"a: {text}\n".encode()),
    "YAML, in a block": lambda text: yaml_text.decode(f"a: |\n  {text}\n".encode()),
    "YAML, written": codec.dump_yaml,
    "YAML, written key": lambda text: codec.dump_yaml({text: [{text: text}]}),
    "YAML, written in OpenAPI": gnostic_yaml.encode,
    "JSONPath": jsonpath.compile,
    "JSONPath, in a filter": lambda text: jsonpath.compile(f".a[?(@.b=={text})]"),
    "JSONPath, in brackets": lambda text: jsonpath.compile(f".a[{text}]"),
    "field path of a rule": lambda text: constructs.find_field(text, {}),
    "field path of a conversion": field_path.parse,
    "field set": lambda text: fieldset.parse({f"{kind}:{text}": {} for kind in "fikv"}),
    "field set, in JSON": lambda text: fieldset.parse({f'k:{{"a":"{text}': {}, f'v:"{text}"': {}}),
    "escaped property": escaping.escape,
    "unescaped property": escaping.unescape,
    "pattern": regexp.matcher,
    "pattern, matched": lambda text: [
        regexp.matcher(each)(text) for each in ("(a+)+$", "(.*)(.*)(.*)x", "^[a-z0-9]([-a-z0-9]*)$")
    ],
    "pattern, found": lambda text: regexp.finder("[a-z]*!")(text, -1),
    "image": default_rules._pull_policy,
    "CEL, tokens": _read_all(lexer.tokens),
    "CEL, quoted": lambda text: [lexer.unescape(quotes + text + quotes) for quotes in ("'", '"""')],
    "CEL, bytes": lambda text: lexer.unescape_bytes(f"b'{text}'"),
    "CEL, double": conversions.to_double,
    "CEL, int": conversions.to_int,
    "CEL, uint": conversions.to_uint,
    "CEL, bool": conversions.to_bool,
    "CEL, timestamp": conversions.to_timestamp,
    "CEL, duration": conversions.to_duration,
    "CEL, time of any year": cel_times.parse_any_year,
    "CEL, URL": url.IMPLEMENTATIONS["string_to_url"],
    "CEL, query of a URL": lambda text: url.IMPLEMENTATIONS["url_get_query"](url.parse(f"https://h/?{text}")),
    "CEL, host of a URL": lambda text: url.parse(f"https://{text}"),
    "CEL, semver": semver.IMPLEMENTATIONS["string_to_semver"],
    "CEL, semver that is mended": lambda text: semver.IMPLEMENTATIONS["string_bool_to_semver"](text, True),
    "CEL, semver's prerelease": lambda text: semver.IMPLEMENTATIONS["string_to_semver"](f"1.0.0-{text}"),
    "CEL, IP": ip.parse_ip,
    "CEL, CIDR": cidr._parse,
    "Accept": negotiation._OBJECT.negotiate,
    "Accept, parameters": lambda text: negotiation._OBJECT.negotiate(f"application/json;{text}"),
    "Accept, plain": negotiation.PLAIN.negotiate,
    "Content-Type": negotiation.body_is_yaml,
    "Content-Type of a webhook": lambda text: answers.failure(200, text, b"{}"),
    "path": lambda text: request_info.parse("GET", f"/apis/a/v1/{text}", {}),
    "path, raw": lambda text: request_info.parse("GET", text, {}),
    "query of a list": lambda text: request_info.parse("GET", "/apis/a/v1/b", {"fieldSelector": text, "watch": text}),
    "continue token": lambda text: keys.decode_continue(text, "/registry/a/"),
    "X-Remote-Extra": _on_bytes(requestheader.unescape_key),
    "bearer token": jws.read,
    "bearer token, in parts": lambda text: jws.read(f"{text}.{text}.{text}"),
    "CA bundle": _on_bytes(ca_bundle.problem),
    "CA bundle, headers": lambda text: ca_bundle.problem(
        f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n".encode()
    ),
}

_PARTS = (
    *("0", "1", "9", "a", "A", "z", "é", "\U0001f600", " ", "\t", "\n", "\r\n", "\0", "\x1b", "\x85", "."),
    *(",", ";", ":", "=", "-", "_", "+", "/", "\\", "'", '"', "`", "%", "%41", "@", "#", "&", "*", "!", "?", "|", "~", "^", "$"),
    *("(", ")", "()", "[", "]", "[]", "[0]", "{", "}", "{}", "<", ">", "((a)", "\\(", "\\)", "\\\\", '\\"', "\\u0041", "\\x"),
    *(
        "a.",
        "a,",
        "a, ",
        "a=b,",
        "a!=b,",
        "a-",
        "a/",
        "a:",
        "a;",
        "a=",
        "a&",
        "a b ",
        "1.",
        "1,",
        "1:",
        "1-",
        "1e",
        "1h",
        "1 ",
        "0x",
    ),
    *(
        "..",
        "a..",
        "::",
        "//",
        "--",
        "-a",
        "'a'",
        '"a"',
        '"a":1,',
        "a: b\n",
        "- a\n",
        "- ",
        "? a\n",
        "&a ",
        "*a ",
        "!a ",
        "%TAG ! a\n",
    ),
    *("[?(@.a)]", "['a']", "$.a", "{.a}", "(c) ", "<a@b>,", "a@b,", "=?utf-8?q?a?=", "a;q=0.5,", "*/*,", "a/b;c=d,", "a: b\r\n"),
    *(
        "(?:a|",
        "a{2}",
        "a*",
        "(a)",
        "|",
        "[^",
        "\\p{L}",
        "ns",
        "1ms",
        "e5",
        ".5",
        "+1",
        "T00",
        "2006-01-02",
        "-----BEGIN A-----\n",
    ),
    *('"""', "'''", "//a\n", "&&a", "||a", "a?b:", "a in ", "has(", "x.", "-----END A-----\n", "---\n", "...\n", "#a\n", "\xa0"),
)
_STARTS = ("", "-", "a", '"')
_ENDS = ("", "!", "a", "1")


def cases(random: Random) -> Iterator[Case]:
    """Each function with each part: alone, with an end that mostly fits nothing, and with a start and an end by chance."""
    for name, read in READERS.items():
        for part in _PARTS:
            for start, end in (("", ""), ("", "!"), (random.choice(_STARTS), random.choice(_ENDS))):
                what = f"{name}: {start!r} + {part!r} * n + {end!r}"
                yield Case(what, _repeated(start, part, end), read, _CHARACTERS // len(part))


def _repeated(start: str, part: str, end: str) -> Callable[[int], str]:
    return lambda count: start + part * count + end
