from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from aggserver.monitoring import admission
from aggserver.monitoring.admission import AdmissionMetrics


def test_names_and_labels() -> None:
    registry = CollectorRegistry()
    metrics = AdmissionMetrics(registry)
    metrics.step("admit", "CREATE", 0.01, rejected=False)
    metrics.controller("NamespaceLifecycle", "admit", "CREATE", 0.001, rejected=True)
    metrics.webhook("a", "validating", "UPDATE", 11.0, 200, rejected=False)
    metrics.webhook_rejection("a", "admit", "DELETE", "calling_webhook_error", 1000)
    metrics.webhook_failed_open("a", "admit")
    metrics.conditions_excluded("a", "admit", "CREATE")
    metrics.conditions_failed("a", "admit", "CREATE")
    text = generate_latest(registry).decode()
    for line in (
        "apiserver_admission_step_admission_duration_seconds_bucket"
        '{le="0.025",operation="CREATE",rejected="false",type="admit"} 1.0',
        "apiserver_admission_controller_admission_duration_seconds_count"
        '{name="NamespaceLifecycle",operation="CREATE",rejected="true",type="admit"} 1.0',
        "apiserver_admission_webhook_admission_duration_seconds_bucket"
        '{le="25.0",name="a",operation="UPDATE",rejected="false",type="validating"} 1.0',
        "apiserver_admission_webhook_request_total"
        '{code="200",name="a",operation="UPDATE",rejected="false",type="validating"} 1.0',
        "apiserver_admission_webhook_rejection_count"
        '{error_type="calling_webhook_error",name="a",operation="DELETE",rejection_code="600",type="admit"} 1.0',
        'apiserver_admission_webhook_fail_open_count{name="a",type="admit"} 1.0',
        'apiserver_admission_match_condition_exclusions_total{kind="webhook",name="a",operation="CREATE",type="admit"} 1.0',
        "apiserver_admission_match_condition_evaluation_errors_total"
        '{kind="webhook",name="a",operation="CREATE",type="admit"} 1.0',
    ):
        assert line in text.splitlines()


def test_series_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(admission, "_MAX_SERIES", 2)
    registry = CollectorRegistry()
    metrics = AdmissionMetrics(registry)
    for name in ("a", "b", "c", "a"):
        metrics.webhook_failed_open(name, "admit")
    text = generate_latest(registry).decode()
    assert 'apiserver_admission_webhook_fail_open_count{name="a",type="admit"} 2.0' in text
    assert 'name="c"' not in text
