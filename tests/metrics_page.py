"""`python -m tests.metrics_page` writes the table of docs/metrics.md anew, from the metrics that the code registers."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

from aggserver.admission.chain import Chain
from aggserver.app.engine import Engine
from aggserver.monitoring.adoption import AdoptionMetrics
from aggserver.monitoring.audit import AuditMetrics
from aggserver.monitoring.catalog import Described, MetricsCatalog
from aggserver.monitoring.flow_control import FlowControlMetrics
from aggserver.monitoring.process import cluster_metrics, tls_metrics
from aggserver.registry.environment import Environment
from aggserver.storage.memory import MemoryStorage

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
BEGIN, END = "<!-- begin of what python -m tests.metrics_page writes -->\n", "<!-- end -->\n"

# What the names of a chapter begin with; the first that fits is taken.
CHAPTERS = {
    "Requests and watches": "apiserver_request apiserver_response apiserver_current apiserver_longrunning apiserver_watch_events "
    "apiserver_watch_list apiserver_tls field_validation apiserver_flowcontrol",
    "Authentication and authorization": "authenti authoriz apiserver_delegated",
    "Admission": "apiserver_admission apiserver_validating apiserver_mutating apiserver_cel",
    "Definitions and conversion": "apiserver_crd apiserver_conversion aggserver_conversion aggserver_storage_migration "
    "apiextensions",
    "Storage and watch caches": "apiserver_storage aggserver_storage etcd_ apiserver_resource apiserver_watch_cache "
    "aggserver_watch_cache apiserver_init apiserver_terminated aggserver_unreadable",
    "Adoption": "aggserver_adoption",
    "Controllers": "workqueue",
    "The hosting API server": "rest_client",
    "Audit": "apiserver_audit",
}
REST = "The process"


def every_metric() -> MetricsCatalog:
    """The metrics of all modes together."""
    environment = Environment(
        storage=MemoryStorage(),
        clock=lambda: 0.0,
        monotonic=lambda: 0.0,
        new_uid=map(str, itertools.count()).__next__,
        random=lambda below: 0,
    )
    registry = Engine(environment, lambda installer, observer: Chain([])).metrics.registry
    AdoptionMetrics(registry)
    AuditMetrics(registry)
    FlowControlMetrics(SimpleNamespace(levels={}, waits={}), registry)  # type: ignore[arg-type]
    tls_metrics(registry, lambda: 0)
    cluster_metrics(registry, list)
    return registry


def table() -> str:
    found: dict[str, list[Described]] = {chapter: [] for chapter in (*CHAPTERS, REST)}
    for metric in every_metric().described():
        chapter = next((name for name, starts in CHAPTERS.items() if metric.name.startswith(tuple(starts.split()))), REST)
        found[chapter].append(metric)
    return "\n".join(_chapter(name, metrics) for name, metrics in found.items() if metrics)


def _chapter(name: str, metrics: list[Described]) -> str:
    rows = [f"| `{each.name}` | {each.type} | {_labels(each)} | {each.stability} | {_cell(each.text)} |" for each in metrics]
    return "\n".join([f"### {name}\n", "| metric | type | labels | stability | meaning |", "|---|---|---|---|---|", *rows, ""])


def _labels(metric: Described) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def page() -> str:
    """The page as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.exit(0)
