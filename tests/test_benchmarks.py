"""The arithmetic of the benchmarks: what a factor is, when an aim is met, what the table and the chart say."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.chart import svg
from benchmarks.client import Access, LoadError, NotServedError, run_load
from benchmarks.processes import children, usage
from benchmarks.report import BASELINE, BEGIN, END, MEASURED, Row, Side, document, number, rows, with_figures
from benchmarks.workloads import WORKLOADS, chosen, in_running_order

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


ACCESS = Access("https://127.0.0.1:1", Path("ca"), Path("cert"), Path("key"))


def a_load_client(folder: Path, answer: str) -> Path:
    """A program that keeps its arguments and prints `answer`."""
    path = folder / "load"
    path.write_text(f"#!/bin/sh\necho \"$@\" > {folder}/arguments\ncat <<'END'\n{answer}\nEND\n")
    path.chmod(0o755)
    return path


def a_run(
    server: str, value: float, *, workload: str = "get", size: int = 3700, cpu: float = 2.0, resumed: int = 0
) -> dict[str, Any]:
    result = {
        "rate_per_second": value,
        "megabytes_per_second": value / 10,
        "p99_ms": 50.0,
        "operations": 900,
        "warmup_operations": 100,
        "bytes": size * 900,
        "resumed_watches": resumed,
    }
    return {"workload": workload, "server": server, "round": 0, "cpu_seconds": cpu, "result": result}


def a_report(*runs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    report = {
        "commit": "abc1234",
        "date": "2026-01-01",
        "machine": {"cores": 2, "processor": "any", "python": "3.13.0", "kubernetes": "v1.36.3"},
        "options": {"objects": 10_000, "rounds": 2, "protocol": "HTTP/2", "quick": False},
        "start_seconds": {BASELINE: 4.0, MEASURED: 0.4},
        "memory_bytes": {},
        "not_served": {},
        "failed": {},
        "runs": list(runs),
    }
    return report | changes


@pytest.mark.parametrize(
    ("row", "factor", "met"),
    [
        pytest.param(Row("get", "/s", 3, Side(1000), Side(3000)), 3.0, True, id="a rate that reaches its aim"),
        pytest.param(Row("get", "/s", 3, Side(1000), Side(2999)), 2.999, False, id="a rate that falls short"),
        pytest.param(Row("memory", "MB", 10, Side(2000), Side(100), less_is_better=True), 20.0, True, id="less is better"),
        pytest.param(Row("get", "/s", 3, Side(1000), None), None, None, id="one side is missing"),
        pytest.param(Row("get", "/s", 3, Side(0), Side(10)), None, None, id="no factor over nothing"),
    ],
)
def test_factor(row: Row, factor: float | None, met: bool | None) -> None:
    assert row.factor == pytest.approx(factor)
    assert row.met is met


def test_rows_take_medians_over_rounds() -> None:
    report = a_report(*(a_run(BASELINE, value) for value in (900, 1100, 5000)), a_run(MEASURED, 3300))
    get = rows(report)[0]
    assert get.baseline == Side(1100, 50.0, 2.0)  # 2 s of CPU for 1,000 operations, those of the warm-up included
    assert get.factor == pytest.approx(3.0)


def test_rows_stand_in_the_order_of_the_workloads() -> None:
    report = a_report(a_run(BASELINE, 1, workload="watch-100"), a_run(BASELINE, 1, workload="create"))
    assert [row.title for row in rows(report)] == [
        "create, 32 clients",
        "watch: 100 watchers, 500 creates",
        "start until ready",
    ]


@pytest.mark.parametrize(
    ("report", "remark"),
    [
        pytest.param(a_report(a_run(BASELINE, 1), a_run(MEASURED, 1, size=3400)), "", id="bodies of about one size"),
        pytest.param(
            a_report(a_run(BASELINE, 1), a_run(MEASURED, 1, size=600)),
            "bodies differ: 3,700 bytes from kube-apiserver, 600 from aggserver",
            id="bodies that hold different things",
        ),
        pytest.param(
            a_report(a_run(BASELINE, 1), not_served={"get": "aggserver: status 415"}),
            "not served: aggserver: status 415",
            id="not served",
        ),
        pytest.param(
            a_report(a_run(BASELINE, 1, resumed=3), a_run(BASELINE, 1, resumed=4), a_run(MEASURED, 1)),
            "kube-apiserver ended 7 watches early, which were resumed",
            id="slow watches",
        ),
        pytest.param(a_report(failed={"get": "aggserver: status 500"}), "failed: aggserver: status 500", id="failed"),
    ],
)
def test_remarks(report: dict[str, Any], remark: str) -> None:
    assert rows(report)[0].remark == remark


def test_memory_adds_the_programs_of_a_side() -> None:
    memory = {BASELINE: {"kube-apiserver": 900_000_000, "etcd": 100_000_000}, MEASURED: {"aggserver": 50_000_000}}
    row = rows(a_report(memory_bytes=memory))[0]
    assert row.title == "memory after that, 10,000 objects"
    assert row.factor == pytest.approx(20.0)
    assert row.met


def test_start_is_judged_by_seconds() -> None:
    assert [rows(a_report(start_seconds={BASELINE: 4.0, MEASURED: ours}))[-1].met for ours in (0.5, 0.51)] == [True, False]


def test_document() -> None:
    text = document(a_report(a_run(BASELINE, 1000), a_run(MEASURED, 3140, cpu=0.5)))
    assert "Commit `abc1234`, 2026-01-01: 2 cores" in text
    assert "| get, 32 clients | 1,000/s | 3,140/s | **3.14x** | 3x | 50 / 50 | 2 / 0.5 |" in text
    assert "| start until ready | 4 s | 0.4 s | **10x** | 8x |  |  |" in text


def test_document_of_one_server_alone() -> None:
    text = document(a_report(a_run(MEASURED, 3140), start_seconds={MEASURED: 0.4}))
    assert "| get, 32 clients | n/a | 3,140/s | n/a | 3x | n/a / 50 | n/a / 2 |" in text


def test_with_figures_replaces_what_stands_between_the_markers() -> None:
    page = f"before\n{BEGIN}\n\nold\n\n{END}\nafter\n"
    assert with_figures(page, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    with pytest.raises(ValueError, match="lacks the lines"):
        with_figures("no markers", "new")


def test_the_page_has_its_markers() -> None:
    with_figures((BENCHMARKS.parent / "docs" / "benchmarks.md").read_text(), "new")


@pytest.mark.parametrize(("value", "text"), [(1140.4, "1,140"), (28.14, "28.1"), (3.0, "3"), (2.96, "2.96"), (0.456, "0.456")])
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_chart_draws_every_factor_and_its_aim() -> None:
    drawn = [
        Row("better & good", "/s", 2, Side(1), Side(4)),
        Row("worse", "/s", 2, Side(4), Side(1)),
        Row("none", "/s", 2, Side(1), None),
    ]
    root = ElementTree.fromstring(svg(drawn, "caption"))
    space = {"s": "http://www.w3.org/2000/svg"}
    bars = root.findall("s:rect", space)
    assert [bar.get("class") for bar in bars] == ["met", "short"]
    assert len(root.findall("s:line[@class='aim']", space)) == 2
    one = float(root.findall("s:line[@class='one']", space)[0].attrib["x1"])
    better, worse = ({name: float(bar.attrib[name]) for name in ("x", "width")} for bar in bars)
    assert better["x"] == pytest.approx(one)
    assert worse["x"] + worse["width"] == pytest.approx(one)


def test_readers_run_before_writers() -> None:
    names = [workload.name for workload in in_running_order(WORKLOADS)]
    assert (names[0], names[-1]) == ("get", "create")


def test_chosen() -> None:
    assert [workload.name for workload in chosen(["list-500", "get"], quick=False)] == ["list-500", "get"]
    assert chosen(["watch-100"], quick=True)[0].flags == {"workload": "watch", "watchers": 20, "count": 100, "clients": 16}
    with pytest.raises(KeyError):
        chosen(["nothing"], quick=False)


def test_load_client_knows_all_that_is_asked_of_it() -> None:
    """Names are agreed on in two languages: the workloads and the resource of the load client are those of this side."""
    sources = {path.name: path.read_text() for path in (BENCHMARKS / "load").glob("*.go")}
    known = set(re.findall(r'^\t"([a-z0-9-]+)": ', sources["requests.go"], re.MULTILINE)) | {"watch"}
    assert {workload.flags["workload"] for workload in WORKLOADS} == known
    spec = yaml.safe_load((BENCHMARKS / "crontab.yaml").read_text())["spec"]
    for constant, value in (
        ("group", spec["group"]),
        ("version", spec["versions"][0]["name"]),
        ("plural", spec["names"]["plural"]),
    ):
        assert re.search(rf'{constant} += "{re.escape(value)}"', sources["client.go"])


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        pytest.param(
            '{"errors": 1, "first_error": "status 415: no", "first_error_status": 415}', NotServedError, id="not served"
        ),
        pytest.param('{"errors": 1, "first_error": "status 500: oh", "first_error_status": 500}', LoadError, id="failed"),
        pytest.param("", LoadError, id="silent"),
    ],
)
def test_a_run_with_errors_is_no_measurement(tmp_path: Path, answer: str, failure: type[LoadError]) -> None:
    with pytest.raises(LoadError) as caught:
        run_load(a_load_client(tmp_path, answer), ACCESS, {"workload": "get"})
    assert caught.type is failure


def test_flags_reach_the_load_client(tmp_path: Path) -> None:
    binary = a_load_client(tmp_path, '{"errors": 0}')
    assert run_load(binary, ACCESS, {"workload": "get", "clients": 32}) == {"errors": 0}
    said = (tmp_path / "arguments").read_text().split()
    assert said == ["-server=https://127.0.0.1:1", "-ca=ca", "-cert=cert", "-key=key", "-workload=get", "-clients=32"]


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="benchmarks read /proc, which is Linux's")
def test_usage_of_this_process() -> None:
    used = usage(os.getpid())
    assert used.resident_bytes > 1_000_000
    assert used.cpu_seconds > 0
    assert os.getpid() in children(os.getppid())
