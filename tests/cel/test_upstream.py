"""Where the behaviours of CEL are tested that upstream's tests cover.

`HERE` names, for each test of cel-go v0.26.0 and of k8s.io/apiserver v0.36.3 (pkg/cel), groups of our tables or tests of ours;
`NOT_HERE` says why there are none, for a test or a whole file. A name that is none any more fails. The expressions of those
tests, with the variables and values that upstream gives them, were put to both implementations in Kubernetes' environment:
types, estimates, values, costs and texts are the same but for what docs/cel.md tells. What tests only Go's own structure is
left out (activations, copies, conversions to protobuf, factories of options).
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import yaml

from tests.sources import functions

ROOT = Path(__file__).parents[1]

# Upstream's file and test -> table:group of tests/cases/cel, or module:test of tests.
HERE: dict[str, tuple[str, ...]] = {
    # cel-go
    "parser Parse": (
        "parsing:all together",
        "parsing:precedence of operators, and trees of && and || that are balanced",
        "parsing:lists, maps and objects",
        "parsing:macros of one variable",
        "parsing:optional selection and indexes",
        "syntax:many mistakes",
        "syntax:objects",
        "syntax:names of fields, in objects with other errors",
        "syntax:what is no token",
        "syntax:arguments that macros can't take",
    ),
    "parser ExpressionSizeCodePointLimit": ("cel/test_bounds:test_hostile",),
    "parser Unescape": ("parsing:strings and bytes", "syntax:escapes that stand for nothing", "syntax:strings"),
    "checker Check": (
        "checking:literals and aggregates",
        "checking:functions",
        "checking:overloads",
        "checking:equality",
        "checking:all and exists",
        "checking:optionals",
        "checking:several errors",
        "checking:places and pictures",
    ),
    "checker CheckErrorData": ("checking:what is not declared",),
    "checker FormatType": ("cel/test_checker:test_declaration", "checking:overloads"),
    "checker Cost": ("cost:one comprehension", "cost:choices", "cost:sizes that follow from the expression", "cost:maps"),
    "cel Eval": ("values:logic", "values:macros", "values:operators and fields", "typed:logic and conditions"),
    "cel CrossTypeNumericComparisons": (
        "checking:comparing numbers of different types",
        "typed:comparisons of types that are known",
    ),
    "cel DynamicDispatch": ("typed:lists, sets and times",),
    "cel VariadicLogicalOperators": ("parsing:precedence of operators, and trees of && and || that are balanced",),
    "cel EstimateCostAndRuntimeCost": ("cost:arithmetic and objects", "values:operators and fields"),
    "cel CostLimit": ("cel/test_program:test_the_budget_is_the_cost", "cel/test_program:test_hostile"),
    "cel RegexOptimizer": ("values:regular expressions", "cel/test_program:test_no_program"),
    "cel DefaultUTCTimeZone": ("values:timestamps and durations", "typed:lists, sets and times"),
    "cel ParserRecursionLimit": ("cel/test_bounds:test_hostile",),
    "cel ParserExpressionSizeLimit": ("cel/test_bounds:test_hostile",),
    "cel QuotedFields": ("syntax:names in backticks are not enabled", "syntax:names in backticks in objects"),
    "cel OptionalValuesCompile": ("checking:optional selection", "checking:optionals"),
    "cel OptionalValuesEval": ("values:optional", "typed:optional values"),
    "cel OptionalMacroError": ("syntax:arguments that macros can't take",),
    "cel EnableErrorOnBadPresenceTest": ("values:operators and fields", "typed:indexes, keys and fields"),
    "cel ValidateDurationLiterals": ("checking:durations, timestamps and patterns",),
    "cel ValidateTimestampLiterals": ("checking:durations, timestamps and patterns",),
    "cel ValidateRegexLiterals": ("checking:durations, timestamps and patterns",),
    "cel ValidateHomogeneousAggregateLiterals": ("checking:aggregates whose elements differ",),
    "ext TwoVarComprehensions": ("values:macros", "typed:macros over lists and maps"),
    "ext TwoVarComprehensionsCost": ("cost:two variables",),
    "ext TwoVarComprehensionsStaticErrors": ("syntax:arguments that macros can't take", "checking:transforms and sorting"),
    "ext TwoVarComprehensionsRuntimeErrors": ("values:macros", "typed:macros over lists and maps"),
    "ext StringFormat": ("values:format", "checking:formats", "typed:texts and bytes"),
    "ext StringFormatHeterogeneousLiterals": ("values:format",),
    "ext Lists": ("values:lists", "typed:lists, sets and times"),
    "ext ListsRuntimeErrors": ("values:lists",),
    "ext ListsCosts": ("cost:the list library of cel-go", "cost:constants of the list library"),
    "ext Sets": ("values:sets", "checking:aggregates whose elements differ"),
    "ext Strings": ("values:strings", "typed:texts and bytes"),
    "interpreter Interpreter": (
        "values:after an error",
        "values:conversions",
        "values:keys",
        "typed:arithmetic that overflows",
        "typed:comparisons of types that are known",
        "typed:macros over lists and maps",
    ),
    "interpreter Attributes": (
        "typed:indexes, keys and fields",
        "cel/test_program:test_variables",
        "cel/test_program:test_objects",
    ),
    "interpreter RuntimeCost": ("values:operators and fields", "values:strings", "typed:texts and bytes"),
    "interpreter TrackCostAdvanced": ("cel/test_program:test_the_budget_is_the_cost",),
    "interpreter TypeConversionOpt": ("cel/test_program:test_no_program",),
    # k8s.io/apiserver
    "library CIDR": ("values:ip and cidr",),
    "library IP": ("values:ip and cidr",),
    "library Format": ("values:format", "values:quantity"),
    "library Quantity": ("values:quantity",),
    "library Semver": ("values:semver",),
    "library LibraryCompatibility": ("cel/test_checker:test_declaration",),
    "library ListsCost": ("cost:the list library of Kubernetes",),
    "library IndexOfCost": ("cost:the list library of Kubernetes",),
    "library URLsCost": ("cost:urls", "values:url"),
    "library IPCost": ("cost:addresses",),
    "library IPIsCanonicalCost": ("cost:addresses",),
    "library CIDRCost": ("cost:addresses",),
    "library StringLibrary": ("cost:the string library", "cost:the regex library"),
    "library AuthzLibrary": ("values:authorization, of what is no authorizer",),
    "library QuantityCost": ("cost:quantities and versions",),
    "library SemverCost": ("cost:quantities and versions",),
    "library NameFormatCost": ("cost:formats",),
    "library SetsCost": ("cost:sets",),
    "library TwoVariableComprehensionCost": ("cost:two variables",),
    "library Size": ("cost:equality",),
    "library TypeEquality": ("cost:equality", "values:operators and fields"),
    "common Correlation": ("schema/test_rule_validation:test_objects",),
    "common ToValue": ("schema/test_rule_values:test_rules", "schema/test_rule_values:test_texts"),
    "cel Escaping": ("schema/test_escaping:test_escape",),
    "environment BaseEnvironment": ("checking:functions", "checking:overloads and libraries that are not there"),
}

_NO_WRITING_BACK = "trees are not turned back to text, nor to protobuf"
_NO_REWRITING = "trees are not rewritten: the code generator folds what is known"
_NO_RESIDUES = "no value is unknown: there is nothing that is left of an expression"
_NOT_IN_KUBERNETES = "not in Kubernetes' environment"
_NO_MESSAGES = "there are no protobuf messages, containers or Go structs"
_FIXED = "the environment is one, and fixed"

NOT_HERE: dict[str, str] = {
    "parser/unparser_test.go": _NO_WRITING_BACK,
    "cel/io_test.go": _NO_WRITING_BACK,
    "cel/folding_test.go": _NO_REWRITING,
    "cel/inlining_test.go": _NO_REWRITING,
    "cel/optimizer_test.go": _NO_REWRITING,
    "interpreter/prune_test.go": _NO_RESIDUES,
    "interpreter/attribute_patterns_test.go": _NO_RESIDUES,
    "cel PartialVars, ResidualAst": _NO_RESIDUES,
    "cel ContextEval, InterruptableEval": "the cost limit ends what takes long",
    "ext/bindings_test.go": _NOT_IN_KUBERNETES,
    "ext/encoders_test.go": _NOT_IN_KUBERNETES,
    "ext/math_test.go": _NOT_IN_KUBERNETES,
    "ext/protos_test.go": _NOT_IN_KUBERNETES,
    "ext/regex_test.go": _NOT_IN_KUBERNETES,
    "ext/native_test.go": _NO_MESSAGES,
    "ext/formatting_v2_test.go": "the format of a version of the library that Kubernetes does not ask for",
    "cel ValidateComprehensionNestingLimit": _NOT_IN_KUBERNETES,
    "cel DynamicProto, ContextProto, AbbrevsCompiled": _NO_MESSAGES,
    "cel/decls_test.go": _FIXED,
    "cel/env_test.go": _FIXED,
    "cel/macro_test.go": _FIXED,
    "cel CustomEnv, SubsetStdLib, CustomMacro": _FIXED,
    "common/types": "Go's values of CEL's types: tables of expressions have what they do",
    "pkg/cel/value_test.go": "values of a form that no rule meets",
    "pkg/cel/mutation": "expressions that change objects are a matter of admission policies, which aggregated servers do not run",
}


@functools.cache
def groups(table: str) -> frozenset[str]:
    return frozenset(yaml.safe_load((ROOT / "cases" / "cel" / f"{table}.yaml").read_text("utf-8")))


@pytest.mark.parametrize("name", HERE)
def test_is_tested_here(name: str) -> None:
    for place in HERE[name]:
        where, case = place.split(":")
        assert case in (functions(ROOT / f"{where}.py") if "/" in where else groups(where)), place


def test_every_group_of_values_has_its_source() -> None:
    places = {place for found in HERE.values() for place in found}
    assert {f"{table}:{group}" for table in ("values", "typed") for group in groups(table)} <= places


def test_nothing_is_both() -> None:
    assert not HERE.keys() & NOT_HERE.keys()
    assert all(NOT_HERE.values())
