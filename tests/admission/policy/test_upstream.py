"""Maps upstream's tests of admission policies to ours.

`HERE` names our tests and cases for each test of k8s.io/apiserver v0.36.3 and k8s.io/kubernetes v1.36.3; `NOT_HERE` has the
reason if there is none. A name that does not exist any more fails. Upstream's files:
pkg/admission/plugin/{policy,cel}/**/*_test.go, pkg/admission/plugin/webhook/matchconditions, pkg/cel/{mutation,lazy} and
test/integration/apiserver/cel.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_FOLDERS = {
    "expressions": "admission/policy/test_expressions",
    "validating": "admission/policy/test_validating",
    "patches": "admission/policy/test_patches",
    "hooks": "admission/policy/test_hooks",
    "plugins": "admission/policy/test_plugins",
    "types": "admission/policy/test_type_checking",
    "matching": "admission/test_matching",
    "live": "integration/cases_policies",
    "authz": "cel/test_authz",
    "chain": "admission/test_chain",
}

# Upstream's test -> module: test function or name of a case.
HERE: dict[str, tuple[str, ...]] = {
    # policy/validating/validator_test.go
    "Validate: passes and fails": ("validating: one of two is denied", "validating: both are denied"),
    "Validate: errors by failurePolicy": ("validating: test_errors", "validating: an error"),
    "Validate: reasons": ("validating: the reason", "validating: test_reasons"),
    "Validate: messages": ("validating: the message", "validating: no message"),
    "Validate: filter error": ("validating: test_the_budget_of_a_policy",),
    "Validate: audit annotations": ("validating: test_annotations", "validating: null", "validating: test_only_annotations"),
    "Validate: messageExpression": (
        "validating: a messageExpression",
        "validating: one of two has it",
        "validating: it comes before the message",
        "validating: it fails",
        "validating: it is empty",
        "validating: it has two lines",
        "validating: it is too long",
    ),
    "Validate: messageExpression out of budget": ("validating: test_messages_beyond_the_budget",),
    "Validate: no match suppresses failure": ("validating: test_no_match_condition_holds",),
    "Validate: match error": ("validating: test_a_match_condition_fails",),
    # policy/validating/admission_test.go
    "BasicPolicyDefinitionFailure": ("plugins: denied",),
    "DefinitionDoesntMatch": ("plugins: another resource", "plugins: other labels of the object"),
    "ReconfigureBinding": ("plugins: test_changes_hold_with_the_next_request",),
    "RemoveDefinition": ("plugins: test_changes_hold_with_the_next_request",),
    "RemoveBinding": ("plugins: test_changes_hold_with_the_next_request",),
    "InvalidParamSourceGVK": ("plugins: an unknown kind of params", "live: an unknown kind of params"),
    "InvalidParamSourceInstanceName": ("plugins: params that are missing, denied",),
    "EmptyParamRef": ("plugins: no params that it could have", "live: a kind without a reference"),
    "EmptyParamSource": ("hooks: test_no_params_to_collect",),
    "MultiplePoliciesSharedParamType": ("live: two bindings with params",),
    "NativeTypeParam": ("hooks: test_params", "plugins: params"),
    "AuditValidationAction": ("validating: test_audited",),
    "WarnValidationAction": ("validating: test_warned", "live: warns"),
    "AllValidationActions": ("validating: test_audited", "live: warns and audits"),
    "NamespaceParamRefName": ("hooks: by name in its own namespace", "hooks: in no namespace"),
    "ParamRef": ("hooks: all by selector", "hooks: none by selector, denied", "hooks: cluster-scoped by selector"),
    "NamespaceParamRefClusterScopedParamError": ("hooks: a namespace for what has none",),
    "AuditAnnotations": ("validating: test_audit_annotations",),
    # policy/validating/typechecking_test.go
    "ExtractTypeNames": ("types: test_resources", "types: several, sorted", "types: mixtures"),
    "TypeCheck": ("types: test_warnings", "types: params", "types: a missing variable", "types: unknown properties"),
    # policy/mutating
    "Compilation": (
        "patches: test_patched",
        "patches: test_old_object_params_and_variables",
        "patches: test_excessive_cost",
        "patches: the request and the namespace",
        "patches: the authorizer",
        "patches: fields and equality of objects",
        "patches: the type of a value's root is not checked",
        "plugins: test_mutations_in_order",
    ),
    "Dispatcher": ("plugins: test_applied", "plugins: test_params", "plugins: both again"),
    "Dispatcher: conditions and reinvocation": ("plugins: test_a_condition_that_another_policy_fulfils",),
    "BasicPatch": ("plugins: test_patched",),
    "JSONPatch (plugin)": ("plugins: test_patched",),
    "SSAPatch": ("plugins: test_applied",),
    "SSAMapList": ("patches: update an item of a list map",),
    "FullReinvocation": ("plugins: both again",),
    "PartialReinvocation": ("plugins: the first again",),
    "NoReinvocation": ("plugins: none again",),
    # policy/mutating/patch
    "JSONPatch": (
        "patches: a test that fails leaves all as it is",
        "patches: move an item to the end",
        "patches: objects in an object",
        "patches: patches of a wrong type",
        "patches: replace beyond the end",
        "patches: an escaped key",
        "patches: equality of patches",
        "patches: which fields patches have",
    ),
    "ApplyConfiguration": (
        "patches: add to a list map",
        "patches: by a condition",
        "patches: an atomic map",
        "patches: a wrong name of a type",
        "patches: an unknown field",
        "patches: duplicates of a list map stay",
        "patches: an item with duplicates is one",
    ),
    # policy/generic, policy/matching
    "PolicySourceBindsToPolicies": ("hooks: test_bound_policies_by_name", "hooks: test_a_binding_without_its_policy"),
    "Matcher": ("matching: test_criteria_of_policies", "plugins: excluded", "plugins: an equivalent version"),
    # plugin/cel
    "Compile": ("expressions: test_mistakes", "expressions: syntax"),
    "Condition": (
        "expressions: test_values",
        "expressions: test_failures",
        "expressions: test_the_object_of_a_deletion_is_null",
        "expressions: test_checks_are_asked_one_after_another",
        "authz: test_asked",
        "authz: test_values",
    ),
    "RuntimeCELCostBudget": ("expressions: test_costs", "expressions: beyond the limit of one expression"),
    "CompilationErrors": ("expressions: test_mistakes",),
    "CompositedPolicies": (
        "expressions: a variable that does not compile",
        "expressions: a variable that fails",
        "expressions: counted once",
        "expressions: a list confused with a map",
        "expressions: an element confused with an integer",
    ),
    "CompilerIsolation": ("expressions: test_one_policy_does_not_see_variables_of_another",),
    "CompileValidatingPolicyExpression": ("expressions: test_mistakes", "expressions: an unknown field of the request"),
    # pkg/cel/mutation, pkg/cel/lazy
    "TypeResolver": ("patches: test_not_compiled", "patches: an unknown type", "patches: no patches of a macro"),
    "CELOptional": ("patches: an optional field without one",),
    "Optional": ("patches: an optional field with a value",),
    "CheckTypeNamesMatchFieldPathNames": ("patches: wrong names in a list and a map",),
    "LazyMapType": ("expressions: test_an_error_is_remembered_and_paid_once", "expressions: counted once"),
    # webhook/matchconditions
    "Match": ("validating: test_match_conditions", "validating: errors do not count if one is false", "validating: two errors"),
    # test/integration/apiserver/cel
    "ValidateNamespace_NoParams_Success": ("live: passes", "live: an error that is ignored", "live: labels of the namespace"),
    "ValidateNamespace_NoParams_Failures": ("live: denied", "live: an error", "live: two validations"),
    "ValidateAnnotationsAndWarnings": ("live: audit annotations that fail", "live: warns", "live: audits"),
    "ValidateNamespace_WithConfigMapParams": ("live: a param", "live: a param that allows it"),
    "MultiplePolicyBindings": ("live: two bindings with params",),
    "PolicyExemption": ("plugins: test_policies_are_exempt_from_policies",),
    "ExcludedResources": ("plugins: test_reviews_are_excluded",),
    "MatchByObjectSelector": ("live: labels",),
    "MatchByNamespaceSelector": ("live: binding for another namespace",),
    "MatchByResourceNames": ("live: these resource names", "live: resource names"),
    "MatchWithExcludeResources": ("live: excluded",),
    "MatchWithMatchPolicyEquivalent": ("live: equivalent version",),
    "MatchWithMatchPolicyExact": ("live: exact version",),
    "MatchExcludedResource": ("live: excluded",),
    "PolicyDeletedThenRecreated": ("plugins: test_changes_hold_with_the_next_request",),
    "BindingDeletedThenRecreated": ("plugins: test_changes_hold_with_the_next_request",),
    "CostLimitForValidation": ("live: beyond the limit of an expression", "live: a third check"),
    "CRDParams": ("live: a param",),
    "BindingRemoval": ("plugins: test_changes_hold_with_the_next_request",),
    "ValidateSecondaryAuthorization": ("live: the authorizer", "live: the authorizer denies a service account"),
    "AuthorizationDecisionCaching": ("plugins: test_checks_are_asked_once_for_a_request",),
    "MutatingAdmissionPolicy": (
        "live: params by selector",
        "live: by a variable",
        "live: match condition",
        "live: two policies, reinvoked",
    ),
    "MutatingAdmissionPolicy_Slow": (
        "live: no binding",
        "live: an error that is ignored",
        "live: the status of an object",
        "live: two bindings",
    ),
    "MutatingAdmissionPolicy_CustomResources": ("live: a field", "live: free fields"),
    "AuthzSelectorsLibraryEnabled": ("authz: selectors",),
}

_MANIFESTS = "policies in files of the API server are an alpha feature that is off"
_SOURCES = "tests/admission/test_cluster_sources.py and test_cluster_params.py: the sources are the same for all plugins"

NOT_HERE: dict[str, str] = {
    "PluginNotReady": _SOURCES,
    "PolicySourceHasSyncedEmpty": _SOURCES,
    "PolicySourceHasSyncedInitialList": _SOURCES,
    "UpdateParamKind": _SOURCES,
    "UpdateParamRef": _SOURCES,
    "UpdateParamResource": _SOURCES,
    "ParamResourceDeletedThenRecreated": _SOURCES,
    "CRDsOnStartup": _SOURCES,
    "ContextCanceled": "a policy's evaluation is bounded by its cost, and given up with the request",
    "TypeConverter": "the types of a definition are there as soon as it is served",
    "CompositePolicySource": _MANIFESTS,
    "LoadValidatingConfig": _MANIFESTS,
    "LoadMutatingConfig": _MANIFESTS,
    "StaticPolicySource": _MANIFESTS,
    "LoadPolicyManifests": _MANIFESTS,
    "StaticPolicyBlocksAPICreation": _MANIFESTS,
    "StaticPolicyComprehensive": _MANIFESTS,
    "TypeResolver (integration)": "of OpenAPI documents, which status of policies is not made from here",
    "BuiltinResolution": "built-in types other than this server's own are not served",
    "PolicyAdmission": "it goes through all built-in resources; ours are custom ones, in every case here",
    "AuthzSelectorsLibraryDisabled": "the feature is on",
}


@functools.cache
def source(module: str) -> str:
    return (ROOT / f"{_FOLDERS[module]}.py").read_text()


@pytest.mark.parametrize("name", HERE)
def test_is_tested_here(name: str) -> None:
    for place in HERE[name]:
        module, _, case = place.partition(": ")
        text = source(module)
        assert f"def {case}(" in text or f'"{case}"' in text, place


def test_nothing_is_both() -> None:
    assert not HERE.keys() & NOT_HERE.keys()
    assert all(NOT_HERE.values())
