"""Maps upstream's tests of admission, of webhooks and of owner references to ours. Those of policies are in `policy/`.

`HERE` names our tests and cases for each test of k8s.io/apiserver v0.36.3 and k8s.io/kubernetes v1.36.3; `NOT_HERE` has the
reason if there is none. A name that does not exist any more fails. Upstream's files: pkg/admission/*_test.go,
pkg/admission/{configuration,metrics}, pkg/admission/plugin/webhook/**, test/integration/apiserver/admissionwebhook,
plugin/pkg/admission/gc.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cases_webhooks import CASES
from tests.sources import functions

ROOT = Path(__file__).parents[1]
_FOLDERS = {
    "chain": "admission/test_chain",
    "matching": "admission/test_matching",
    "review": "admission/test_review",
    "webhooks": "admission/test_webhooks",
    "bad": "admission/test_bad_webhooks",
    "observer": "admission/test_observer",
    "owners": "admission/test_owner_references",
    "metrics": "monitoring/test_admission",
    "client": "webhook/test_client",
    "identities": "webhook/test_identities",
}

# Upstream's test -> module: test function, or `live:` and the name of a case that runs on kube-apiserver, too.
HERE: dict[str, tuple[str, ...]] = {
    # pkg/admission
    "TestAdmitAndValidate": ("chain:test_mutating_in_order", "chain:test_validating_in_order"),
    "TestAddAnnotation": ("webhooks:test_validate", "live:audit"),
    "TestConvertToGVK": ("webhooks:test_another_version", "webhooks:test_an_object_that_can_not_be_converted"),
    "TestConvertVersionedAttributes": ("webhooks:test_another_version", "live:equivalent-patched"),
    "TestNewForbidden": ("webhooks:test_match_conditions_that_fail", "owners:test_case"),
    # pkg/admission/metrics
    "TestObserveAdmissionStep": ("metrics:test_names_and_labels", "observer:test_what_is_counted"),
    "TestObserveAdmissionController": ("metrics:test_names_and_labels", "observer:test_what_is_counted"),
    "TestObserveWebhook": ("metrics:test_names_and_labels", "webhooks:test_metrics"),
    "TestObserveWebhookRejection": ("metrics:test_names_and_labels", "webhooks:test_metrics"),
    "TestObserveWebhookFailOpen": ("metrics:test_names_and_labels", "webhooks:test_metrics"),
    "TestObserveMatchConditionEvalError": ("metrics:test_names_and_labels", "webhooks:test_match_conditions_that_fail"),
    "TestObserveMatchConditionExclusion": ("metrics:test_names_and_labels", "webhooks:test_match_conditions"),
    "TestWithMetrics": ("observer:test_what_is_counted",),
    # pkg/admission/configuration
    "TestGetMutatingWebhookConfig": ("webhooks:test_order", "webhooks:test_changed_configurations"),
    "TestGetMutatingWebhookConfigSmartReload": ("webhooks:test_a_configuration_is_parsed_once",),
    "TestGetValidatingWebhookConfig": ("webhooks:test_changed_configurations",),
    "TestGetValidatingWebhookConfigSmartReload": ("webhooks:test_a_configuration_is_parsed_once",),
    # pkg/admission/plugin/webhook
    "TestShouldCallHook": ("matching:test_criteria_of_webhooks", "webhooks:test_match_conditions"),
    "TestGroup": ("matching:test_rule",),
    "TestVersion": ("matching:test_rule",),
    "TestOperation": ("matching:test_rule",),
    "TestResource": ("matching:test_rule",),
    "TestScope": ("matching:test_rule",),
    "TestGetNamespaceLabels": ("matching:test_namespace_selector",),
    "TestNotExemptClusterScopedResource": ("matching:test_namespace_selector",),
    "TestObjectSelector": ("matching:test_object_selector",),
    "TestMatch": ("webhooks:test_match",),
    "TestVerifyAdmissionResponse": ("review:test_answer", "review:test_no_review"),
    "TestCreateAdmissionObjects": ("review:test_body", "review:test_version", "review:test_no_version"),
    "TestToStatusErr": ("review:test_denial", "live:deny-nothing"),
    "TestMutationAnnotationValue": ("webhooks:test_admit",),
    "TestAdmit": ("webhooks:test_admit", "webhooks:test_admit_without_patches", "webhooks:test_reinvocation"),
    "TestValidate": ("webhooks:test_validate",),
    "TestAdmitCachedClient": ("client:test_connections_are_kept_open",),
    "TestValidateCachedClient": ("client:test_connections_are_kept_open",),
    "TestLoadConfig": ("identities:test_the_most_exact_name_counts",),
    # test/integration/apiserver/admissionwebhook
    "TestWebhookAdmissionWithWatchCache": (
        *("live:create", "live:create-v2", "live:create-dry", "live:update", "live:patch", "live:json-patch", "live:apply"),
        *("live:delete", "live:delete-options", "live:delete-collection", "live:status", "live:scale", "live:v1beta1"),
    ),
    "TestBrokenWebhook": ("bad:test_refused", "webhooks:test_changed_configurations", "live:bad-500"),
    "TestWebhookClientAuthWithAggregatorRouting": ("client:test_a_client_certificate", "identities:test_what_users_have"),
    "TestWebhookClientAuthWithoutAggregatorRouting": ("client:test_a_client_certificate",),
    "TestMutatingWebhookDuplicateOwnerReferences": ("live:patch-owners-twice", "live:update-owners-twice"),
    "TestMutatingWebhookResetsInvalidManagedFields": (
        "live:patch-managed-fields-broken",
        "live:update-managed-fields-broken",
        "live:patch-managed-fields-operation",
    ),
    "TestMatchConditions": (
        *("live:condition-true", "live:condition-false", "live:condition-error", "live:condition-error-ignored"),
        *("live:condition-old-object", "live:condition-of-deletion", "live:condition-authorizer", "live:condition-request"),
    ),
    "TestMatchConditionsWithStrictCostEnforcement": ("live:condition-too-expensive",),
    "Test_MutatingWebhookConvertsGVKWithMatchPolicyEquivalent": ("live:equivalent-patched", "live:equivalent-seen"),
    "TestWebhookReinvocationPolicyWithWatchCache": (
        *("live:reinvoke", "live:reinvoke-both", "live:reinvoke-never", "live:reinvoke-unchanged", "live:reinvoke-not-new"),
        "webhooks:test_another_plugin_changes_the_object",
    ),
    "TestWebhookTimeoutWithWatchCache": (
        *("live:hangs", "live:hangs-ignored", "live:judge-hangs", "live:request-timeout"),
        "webhooks:test_timeout",
    ),
    # plugin/pkg/admission/gc
    "TestGCAdmission": ("owners:test_case",),
    "TestBlockOwnerDeletionAdmission": ("owners:test_case",),
}

_ONE_CACHE = "reads always come from the watch cache"
NOT_HERE: dict[str, str] = {
    "TestHandles": "plugins see the operation themselves",
    "TestWaitForReady": "the plugin Readiness waits for the rules: test_cluster_sources.py",
    "TestWithAudit": "there is no audit log yet",
    "TestWithAuditConcurrency": "there is no audit log yet",
    "TestJSONPatchAnnotationValue": "the annotation with the patch belongs to an audit level, and there are no levels yet",
    "TestReadAdmissionConfiguration": "tests/app/test_admission_configuration.py has cases of its own",
    "TestEmbeddedConfiguration": "tests/app/test_admission_configuration.py has cases of its own",
    "TestRuntimeSchemeConvert": "objects are JSON, so there is no scheme",
    "TestObserveMatchConditionEvaluationTime": "the time of matchConditions is not measured apart from the plugin's",
    "TestMutatingWebhookAccessor": "of getters",
    "TestValidatingWebhookAccessor": "of getters",
    "TestCompositeWebhookSource": "of staticManifestsDir, an alpha feature that is off",
    "TestStaticWebhookBlocksAPICreation": "staticManifestsDir is an alpha feature that is off",
    "TestStaticWebhookComprehensive": "staticManifestsDir is an alpha feature that is off",
    "TestWebhookDuration": "of the latency annotations of the audit log",
    "TestValidateWebhookDuration": "of the latency annotations of the audit log",
    "TestValidatePanicHandling": "of Go's panics in a goroutine; an exception here ends the request",
    "TestMatchConditions_validation": "of the kinds: tests/admissionregistration",
    "TestWebhookLoadBalance": "of connections to several backends of one service, which HTTP/1.1 spreads, here too",
    "TestWebhookAdmissionWithoutWatchCache": _ONE_CACHE,
    "TestWebhookReinvocationPolicyWithoutWatchCache": _ONE_CACHE,
    "TestWebhookTimeoutWithoutWatchCache": _ONE_CACHE,
    "TestWebhookAdmissionWithCBOR": "CBOR is a feature that is off",
}


@pytest.mark.parametrize("name", HERE)
def test_is_tested_here(name: str) -> None:
    for place in HERE[name]:
        module, _, case = place.partition(":")
        assert case in (CASES if module == "live" else functions(ROOT / f"{_FOLDERS[module]}.py")), place


def test_nothing_is_both() -> None:
    assert not HERE.keys() & NOT_HERE.keys()
    assert all(NOT_HERE.values())
