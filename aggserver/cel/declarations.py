"""Declarations: the functions, their overloads, and the argument and result types of each overload.

Overload ids are upstream's: costs and implementations are keyed by them. Their order is upstream's too, since the checker
records all that fit and takes the result type of the first. It also looks up operators and names of types here.

All expressions have the same declarations; those that make patches have one function more (`patch_functions`). Upstream adds
libraries by Kubernetes version, the last in 1.34: new expressions in 1.36 may use those of 1.35, stored ones may use all, and
today both are the same.
Source: k8s.io/apiserver pkg/cel/environment/base.go and pkg/cel/library, v0.36.3; cel-go, v0.26.0 (files are named below).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from aggserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Type,
    list_of,
    map_of,
    object_type,
    opaque,
    optional_of,
    type_of,
    type_param,
)

__all__ = ["TYPE_NAMES", "Overload", "functions", "patch_functions"]


@dataclass(frozen=True, slots=True)
class Overload:
    id: str
    is_member: bool
    args: tuple[Type, ...]
    """The target comes first, if it is a member function."""
    result: Type
    params: tuple[Type, ...]
    """The type parameters in args and result."""


TYPE_NAMES: Mapping[str, Type] = MappingProxyType(
    {
        "bool": BOOL,
        "bytes": BYTES,
        "double": DOUBLE,
        "duration": DURATION,
        "google.protobuf.Duration": DURATION,
        "google.protobuf.Timestamp": TIMESTAMP,
        "int": INT,
        "list": list_of(type_param("A")),
        "map": map_of(type_param("A"), type_param("B")),
        "net.CIDR": opaque("net.CIDR"),
        "net.IP": opaque("net.IP"),
        "null_type": NULL,
        "optional_type": opaque("optional_type"),
        "string": STRING,
        "timestamp": TIMESTAMP,
        "type": TYPE,
        "uint": UINT,
    }
)
"""The identifiers that denote types. `duration` and `timestamp` are Kubernetes' own (pkg/cel/types.go, findScalar)."""

# A line with the function, then a line for each overload: id, signature (as errors print it) and result.
_LIBRARIES = (
    # cel-go common/stdlib/standard.go; comparisons are made below
    """
_?_:_
  conditional (bool, A, A) -> A
_&&_
  logical_and (bool, bool) -> bool
_||_
  logical_or (bool, bool) -> bool
!_
  logical_not (bool) -> bool
@not_strictly_false
  not_strictly_false (bool) -> bool
_==_
  equals (A, A) -> bool
_!=_
  not_equals (A, A) -> bool
_+_
  add_bytes (bytes, bytes) -> bytes
  add_double (double, double) -> double
  add_duration_duration (duration, duration) -> duration
  add_duration_timestamp (duration, timestamp) -> timestamp
  add_timestamp_duration (timestamp, duration) -> timestamp
  add_int64 (int, int) -> int
  add_list (list(A), list(A)) -> list(A)
  add_string (string, string) -> string
  add_uint64 (uint, uint) -> uint
_-_
  subtract_double (double, double) -> double
  subtract_duration_duration (duration, duration) -> duration
  subtract_int64 (int, int) -> int
  subtract_timestamp_duration (timestamp, duration) -> timestamp
  subtract_timestamp_timestamp (timestamp, timestamp) -> duration
  subtract_uint64 (uint, uint) -> uint
_*_
  multiply_double (double, double) -> double
  multiply_int64 (int, int) -> int
  multiply_uint64 (uint, uint) -> uint
_/_
  divide_double (double, double) -> double
  divide_int64 (int, int) -> int
  divide_uint64 (uint, uint) -> uint
_%_
  modulo_int64 (int, int) -> int
  modulo_uint64 (uint, uint) -> uint
-_
  negate_double (double) -> double
  negate_int64 (int) -> int
@in
  in_list (A, list(A)) -> bool
  in_map (A, map(A, B)) -> bool
_[_]
  index_list (list(A), int) -> A
  index_map (map(A, B), A) -> B
bool
  bool_to_bool (bool) -> bool
  string_to_bool (string) -> bool
bytes
  bytes_to_bytes (bytes) -> bytes
  string_to_bytes (string) -> bytes
contains
  contains_string string.(string) -> bool
double
  double_to_double (double) -> double
  int64_to_double (int) -> double
  string_to_double (string) -> double
  uint64_to_double (uint) -> double
duration
  duration_to_duration (duration) -> duration
  int64_to_duration (int) -> duration
  string_to_duration (string) -> duration
dyn
  to_dyn (A) -> dyn
endsWith
  ends_with_string string.(string) -> bool
fieldSelector
  authorizer_fieldselector kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
getDate
  timestamp_to_day_of_month_1_based timestamp.() -> int
  timestamp_to_day_of_month_1_based_with_tz timestamp.(string) -> int
getDayOfMonth
  timestamp_to_day_of_month timestamp.() -> int
  timestamp_to_day_of_month_with_tz timestamp.(string) -> int
getDayOfWeek
  timestamp_to_day_of_week timestamp.() -> int
  timestamp_to_day_of_week_with_tz timestamp.(string) -> int
getDayOfYear
  timestamp_to_day_of_year timestamp.() -> int
  timestamp_to_day_of_year_with_tz timestamp.(string) -> int
getFullYear
  timestamp_to_year timestamp.() -> int
  timestamp_to_year_with_tz timestamp.(string) -> int
getHours
  timestamp_to_hours timestamp.() -> int
  timestamp_to_hours_with_tz timestamp.(string) -> int
  duration_to_hours duration.() -> int
getMilliseconds
  timestamp_to_milliseconds timestamp.() -> int
  timestamp_to_milliseconds_with_tz timestamp.(string) -> int
  duration_to_milliseconds duration.() -> int
getMinutes
  timestamp_to_minutes timestamp.() -> int
  timestamp_to_minutes_with_tz timestamp.(string) -> int
  duration_to_minutes duration.() -> int
getMonth
  timestamp_to_month timestamp.() -> int
  timestamp_to_month_with_tz timestamp.(string) -> int
getSeconds
  timestamp_to_seconds timestamp.() -> int
  timestamp_to_seconds_tz timestamp.(string) -> int
  duration_to_seconds duration.() -> int
int
  int64_to_int64 (int) -> int
  double_to_int64 (double) -> int
  duration_to_int64 (duration) -> int
  string_to_int64 (string) -> int
  timestamp_to_int64 (timestamp) -> int
  uint64_to_int64 (uint) -> int
labelSelector
  authorizer_labelselector kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
matches
  matches (string, string) -> bool
  matches_string string.(string) -> bool
size
  size_bytes (bytes) -> int
  bytes_size bytes.() -> int
  size_list (list(A)) -> int
  list_size list(A).() -> int
  size_map (map(A, B)) -> int
  map_size map(A, B).() -> int
  size_string (string) -> int
  string_size string.() -> int
startsWith
  starts_with_string string.(string) -> bool
string
  string_to_string (string) -> string
  bool_to_string (bool) -> string
  bytes_to_string (bytes) -> string
  double_to_string (double) -> string
  duration_to_string (duration) -> string
  int64_to_string (int) -> string
  timestamp_to_string (timestamp) -> string
  uint64_to_string (uint) -> string
timestamp
  timestamp_to_timestamp (timestamp) -> timestamp
  int64_to_timestamp (int) -> timestamp
  string_to_timestamp (string) -> timestamp
type
  type (A) -> type(A)
uint
  uint64_to_uint64 (uint) -> uint
  double_to_uint64 (double) -> uint
  int64_to_uint64 (int) -> uint
  string_to_uint64 (string) -> uint
""",
    # k8s.io/apiserver pkg/cel/library/urls.go
    """
getEscapedPath
  url_get_escaped_path kubernetes.URL.() -> string
getHost
  url_get_host kubernetes.URL.() -> string
getHostname
  url_get_hostname kubernetes.URL.() -> string
getPort
  url_get_port kubernetes.URL.() -> string
getQuery
  url_get_query kubernetes.URL.() -> map(string, list(string))
getScheme
  url_get_scheme kubernetes.URL.() -> string
isURL
  is_url_string (string) -> bool
url
  string_to_url (string) -> kubernetes.URL
""",
    # library/regex.go
    """
find
  string_find_string string.(string) -> string
findAll
  string_find_all_string string.(string) -> list(string)
  string_find_all_string_int string.(string, int) -> list(string)
""",
    # library/lists.go
    """
indexOf
  list_a_index_of_int list(A).(A) -> int
isSorted
  list_int_is_sorted_bool list(int).() -> bool
  list_uint_is_sorted_bool list(uint).() -> bool
  list_double_is_sorted_bool list(double).() -> bool
  list_bool_is_sorted_bool list(bool).() -> bool
  list_duration_is_sorted_bool list(duration).() -> bool
  list_timestamp_is_sorted_bool list(timestamp).() -> bool
  list_string_is_sorted_bool list(string).() -> bool
  list_bytes_is_sorted_bool list(bytes).() -> bool
lastIndexOf
  list_a_last_index_of_int list(A).(A) -> int
max
  list_int_max_int list(int).() -> int
  list_uint_max_uint list(uint).() -> uint
  list_double_max_double list(double).() -> double
  list_bool_max_bool list(bool).() -> bool
  list_duration_max_duration list(duration).() -> duration
  list_timestamp_max_timestamp list(timestamp).() -> timestamp
  list_string_max_string list(string).() -> string
  list_bytes_max_bytes list(bytes).() -> bytes
min
  list_int_min_int list(int).() -> int
  list_uint_min_uint list(uint).() -> uint
  list_double_min_double list(double).() -> double
  list_bool_min_bool list(bool).() -> bool
  list_duration_min_duration list(duration).() -> duration
  list_timestamp_min_timestamp list(timestamp).() -> timestamp
  list_string_min_string list(string).() -> string
  list_bytes_min_bytes list(bytes).() -> bytes
sum
  list_int_sum_int list(int).() -> int
  list_uint_sum_uint list(uint).() -> uint
  list_double_sum_double list(double).() -> double
  list_duration_sum_duration list(duration).() -> duration
""",
    # library/authz.go
    """
allowed
  decision_allowed kubernetes.authorization.Decision.() -> bool
check
  pathcheck_check kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision
  resourcecheck_check kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision
error
  decision_error kubernetes.authorization.Decision.() -> string
errored
  decision_errored kubernetes.authorization.Decision.() -> bool
group
  authorizer_group kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck
name
  resourcecheck_name kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
namespace
  resourcecheck_namespace kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
path
  authorizer_path kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck
reason
  decision_reason kubernetes.authorization.Decision.() -> string
resource
  groupcheck_resource kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck
serviceAccount
  authorizer_serviceaccount kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer
subresource
  resourcecheck_subresource kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
""",
    # cel-go cel/library.go, optionalLib
    """
_[_]
  optional_list_index_int (optional_type(list(V)), int) -> optional_type(V)
  optional_map_index_value (optional_type(map(K, V)), K) -> optional_type(V)
_[?_]
  list_optindex_optional_int (list(V), int) -> optional_type(V)
  optional_list_optindex_optional_int (optional_type(list(V)), int) -> optional_type(V)
  map_optindex_optional_value (map(K, V), K) -> optional_type(V)
  optional_map_optindex_optional_value (optional_type(map(K, V)), K) -> optional_type(V)
first
  list_first list(V).() -> optional_type(V)
hasValue
  optional_hasValue optional_type(V).() -> bool
last
  list_last list(V).() -> optional_type(V)
optional.none
  optional_none () -> optional_type(V)
optional.of
  optional_of (V) -> optional_type(V)
optional.ofNonZeroValue
  optional_ofNonZeroValue (V) -> optional_type(V)
optional.unwrap
  optional_unwrap (list(optional_type(V))) -> list(V)
or
  optional_or_optional optional_type(V).(optional_type(V)) -> optional_type(V)
orValue
  optional_orValue_value optional_type(V).(V) -> V
unwrapOpt
  optional_unwrapOpt list(optional_type(V)).() -> list(V)
value
  optional_value optional_type(V).() -> V
""",
    # library/quantity.go
    """
add
  quantity_add kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity
  quantity_add_int kubernetes.Quantity.(int) -> kubernetes.Quantity
asApproximateFloat
  quantity_get_float kubernetes.Quantity.() -> double
asInteger
  quantity_get_int kubernetes.Quantity.() -> int
compareTo
  quantity_compare_to kubernetes.Quantity.(kubernetes.Quantity) -> int
isGreaterThan
  quantity_is_greater_than kubernetes.Quantity.(kubernetes.Quantity) -> bool
isInteger
  quantity_is_integer kubernetes.Quantity.() -> bool
isLessThan
  quantity_is_less_than kubernetes.Quantity.(kubernetes.Quantity) -> bool
isQuantity
  is_quantity_string (string) -> bool
quantity
  string_to_quantity (string) -> kubernetes.Quantity
sign
  quantity_sign (kubernetes.Quantity) -> int
sub
  quantity_sub kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity
  quantity_sub_int kubernetes.Quantity.(int) -> kubernetes.Quantity
""",
    # cel-go ext/strings.go, version 2
    """
charAt
  string_char_at_int string.(int) -> string
format
  string_format string.(list(dyn)) -> string
indexOf
  string_index_of_string string.(string) -> int
  string_index_of_string_int string.(string, int) -> int
join
  list_join list(string).() -> string
  list_join_string list(string).(string) -> string
lastIndexOf
  string_last_index_of_string string.(string) -> int
  string_last_index_of_string_int string.(string, int) -> int
lowerAscii
  string_lower_ascii string.() -> string
replace
  string_replace_string_string string.(string, string) -> string
  string_replace_string_string_int string.(string, string, int) -> string
split
  string_split_string string.(string) -> list(string)
  string_split_string_int string.(string, int) -> list(string)
strings.quote
  strings_quote (string) -> string
substring
  string_substring_int string.(int) -> string
  string_substring_int_int string.(int, int) -> string
trim
  string_trim string.() -> string
upperAscii
  string_upper_ascii string.() -> string
""",
    # cel-go ext/sets.go
    """
sets.contains
  list_sets_contains_list (list(T), list(T)) -> bool
sets.equivalent
  list_sets_equivalent_list (list(T), list(T)) -> bool
sets.intersects
  list_sets_intersects_list (list(T), list(T)) -> bool
""",
    # library/ip.go
    """
family
  ip_family net.IP.() -> int
ip
  string_to_ip (string) -> net.IP
ip.isCanonical
  ip_is_canonical (string) -> bool
isGlobalUnicast
  ip_is_global_unicast net.IP.() -> bool
isIP
  is_ip (string) -> bool
isLinkLocalMulticast
  ip_is_link_local_multicast net.IP.() -> bool
isLinkLocalUnicast
  ip_is_link_local_unicast net.IP.() -> bool
isLoopback
  ip_is_loopback net.IP.() -> bool
isUnspecified
  ip_is_unspecified net.IP.() -> bool
string
  ip_to_string (net.IP) -> string
""",
    # library/cidr.go
    """
cidr
  string_to_cidr (string) -> net.CIDR
containsCIDR
  cidr_contains_cidr_string net.CIDR.(string) -> bool
  cidr_contains_cidr net.CIDR.(net.CIDR) -> bool
containsIP
  cidr_contains_ip_string net.CIDR.(string) -> bool
  cidr_contains_ip_ip net.CIDR.(net.IP) -> bool
ip
  cidr_ip net.CIDR.() -> net.IP
isCIDR
  is_cidr (string) -> bool
masked
  cidr_masked net.CIDR.() -> net.CIDR
prefixLength
  cidr_prefix_length net.CIDR.() -> int
string
  cidr_to_string (net.CIDR) -> string
""",
    # library/format.go
    """
format.byte
  format.byte () -> kubernetes.NamedFormat
format.date
  format.date () -> kubernetes.NamedFormat
format.datetime
  format.datetime () -> kubernetes.NamedFormat
format.dns1035Label
  format.dns1035Label () -> kubernetes.NamedFormat
format.dns1035LabelPrefix
  format.dns1035LabelPrefix () -> kubernetes.NamedFormat
format.dns1123Label
  format.dns1123Label () -> kubernetes.NamedFormat
format.dns1123LabelPrefix
  format.dns1123LabelPrefix () -> kubernetes.NamedFormat
format.dns1123Subdomain
  format.dns1123Subdomain () -> kubernetes.NamedFormat
format.dns1123SubdomainPrefix
  format.dns1123SubdomainPrefix () -> kubernetes.NamedFormat
format.labelValue
  format.labelValue () -> kubernetes.NamedFormat
format.named
  format-named (string) -> optional_type(kubernetes.NamedFormat)
format.qualifiedName
  format.qualifiedName () -> kubernetes.NamedFormat
format.uri
  format.uri () -> kubernetes.NamedFormat
format.uuid
  format.uuid () -> kubernetes.NamedFormat
validate
  format-validate kubernetes.NamedFormat.(string) -> optional_type(list(string))
""",
    # cel-go ext/comprehensions.go
    """
cel.@mapInsert
  @mapInsert_map_key_value (map(K, V), K, V) -> map(K, V)
  @mapInsert_map_map (map(K, V), map(K, V)) -> map(K, V)
""",
    # library/semverlib.go, version 1
    """
compareTo
  semver_compare_to kubernetes.Semver.(kubernetes.Semver) -> int
isGreaterThan
  semver_is_greater_than kubernetes.Semver.(kubernetes.Semver) -> bool
isLessThan
  semver_is_less_than kubernetes.Semver.(kubernetes.Semver) -> bool
isSemver
  is_semver_string (string) -> bool
  is_semver_string_bool (string, bool) -> bool
major
  semver_major kubernetes.Semver.() -> int
minor
  semver_minor kubernetes.Semver.() -> int
patch
  semver_patch kubernetes.Semver.() -> int
semver
  string_to_semver (string) -> kubernetes.Semver
  string_bool_to_semver (string, bool) -> kubernetes.Semver
""",
    # cel-go ext/lists.go, version 3
    """
@sortByAssociatedKeys
  list_int_sortByAssociatedKeys list(T).(list(int)) -> list(T)
  list_uint_sortByAssociatedKeys list(T).(list(uint)) -> list(T)
  list_double_sortByAssociatedKeys list(T).(list(double)) -> list(T)
  list_bool_sortByAssociatedKeys list(T).(list(bool)) -> list(T)
  list_google.protobuf.Duration_sortByAssociatedKeys list(T).(list(duration)) -> list(T)
  list_google.protobuf.Timestamp_sortByAssociatedKeys list(T).(list(timestamp)) -> list(T)
  list_string_sortByAssociatedKeys list(T).(list(string)) -> list(T)
  list_bytes_sortByAssociatedKeys list(T).(list(bytes)) -> list(T)
distinct
  list_distinct list(T).() -> list(T)
flatten
  list_flatten list(list(T)).() -> list(T)
  list_flatten_int list(dyn).(int) -> list(dyn)
lists.range
  lists_range (int) -> list(int)
reverse
  list_reverse list(T).() -> list(T)
slice
  list_slice list(T).(int, int) -> list(T)
sort
  list_int_sort list(int).() -> list(int)
  list_uint_sort list(uint).() -> list(uint)
  list_double_sort list(double).() -> list(double)
  list_bool_sort list(bool).() -> list(bool)
  list_google.protobuf.Duration_sort list(duration).() -> list(duration)
  list_google.protobuf.Timestamp_sort list(timestamp).() -> list(timestamp)
  list_string_sort list(string).() -> list(string)
  list_bytes_sort list(bytes).() -> list(bytes)
""",
)

_ORDER = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
# Pairs of types that have an order, in the order of upstream's overloads. Any number compares with any other.
_ORDERED = (
    *(("bool", "bool"), ("int64", "int64"), ("int64", "double"), ("int64", "uint64"), ("uint64", "uint64"), ("uint64", "double")),
    *(("uint64", "int64"), ("double", "double"), ("double", "int64"), ("double", "uint64"), ("string", "string")),
    *(("bytes", "bytes"), ("timestamp", "timestamp"), ("duration", "duration")),
)

_NAMED = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "duration": DURATION,
    "dyn": DYN,
    "int": INT,
    "int64": INT,
    "string": STRING,
    "timestamp": TIMESTAMP,
    "uint": UINT,
    "uint64": UINT,
    # Upstream registers these two as opaque types, and those named kubernetes.* as objects without fields.
    "net.CIDR": opaque("net.CIDR"),
    "net.IP": opaque("net.IP"),
}


@functools.cache
def functions() -> Mapping[str, tuple[Overload, ...]]:
    """The functions of every environment by name, with their overloads."""
    found: dict[str, list[Overload]] = {}
    for library in _LIBRARIES:
        name = ""
        for line in library.strip().splitlines():
            if line.startswith("  "):
                found.setdefault(name, []).append(_overload(line))
            else:
                name = line
    for name, word in _ORDER.items():
        for left, right in _ORDERED:
            number = f"{word}_{left}" if left == right else f"{word}_{left}_{right}"
            found.setdefault(name, []).append(Overload(number, False, (_NAMED[left], _NAMED[right]), BOOL, ()))
    return MappingProxyType({name: tuple(overloads) for name, overloads in found.items()})


@functools.cache
def patch_functions() -> Mapping[str, tuple[Overload, ...]]:
    """The function that only expressions which make patches may call. Source: library/jsonpatch.go."""
    overload = _overload("  string_jsonpatch_escapeKey_string (string) -> string")
    return MappingProxyType({"jsonpatch.escapeKey": (overload,)})


_LINE = re.compile(r"  (?P<id>\S+) (?:(?P<target>.+)\.)?\((?P<args>.*)\) -> (?P<result>.*)")


def _overload(line: str) -> Overload:
    match = _LINE.fullmatch(line)
    assert match, line
    args = [_type(text) for text in _parts(match["args"])]
    if match["target"]:
        args.insert(0, _type(match["target"]))
    result = _type(match["result"])
    params = {param: None for type_ in (*args, result) for param in _params(type_)}
    return Overload(match["id"], match["target"] is not None, tuple(args), result, tuple(params))


def _type(text: str) -> Type:
    name, _, rest = text.partition("(")
    parameters = [_type(part) for part in _parts(rest[:-1])]
    match name:
        case "list":
            return list_of(*parameters)
        case "map":
            return map_of(*parameters)
        case "optional_type":
            return optional_of(*parameters)
        case "type":
            return type_of(*parameters)
        case _ if len(name) == 1:
            return type_param(name)
        case _:
            return _NAMED.get(name) or object_type(name)


def _parts(text: str) -> list[str]:
    """Split at the commas that are outside parentheses."""
    return re.findall(r"(?:[^,()]|\((?:[^()]|\([^()]*\))*\))+", text.replace(", ", ","))


def _params(type_: Type) -> list[Type]:
    own = [type_] if len(type_.name) == 1 else []
    return own + [param for parameter in type_.parameters for param in _params(parameter)]
