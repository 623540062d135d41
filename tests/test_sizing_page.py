"""docs/sizing.md: the tables are as the benchmark writes them, and the Deployment's requests and limit follow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from benchmarks.sizing import BUSY, FULL, PAGE, Costs, cpu_of, memory_of, sizing_document

ROOT = Path(__file__).parents[1]
UNITS = {"MB": 1e6, "KB": 1e3, "bytes": 1.0, "ms": 1e-3, "µs": 1e-6}


def measured() -> Costs:
    """What the page says."""
    tables = re.findall(r"(?:^\|.*\n)+", PAGE.read_text(), re.MULTILINE)
    found = []
    for head in ("memory of", "CPU time of"):
        (table,) = (table for table in tables if table.startswith(f"| {head} |"))
        rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()[2:]]
        found.append({title: _value(cell) for title, cell, _ in rows if not title.startswith("**")})
    return Costs(*found)


def _value(text: str) -> float:
    number, unit = text.split()
    return float(number.replace(",", "")) * UNITS[unit]


def resources() -> dict[str, dict[str, str]]:
    deployment = yaml.safe_load((ROOT / "manifests" / "deployment.yaml").read_text())
    found: dict[str, dict[str, str]] = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]
    return found


def _quantity(text: str) -> float:
    number, unit = re.fullmatch(r"([0-9.]+)(\D*)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"Mi": 1 << 20, "Gi": 1 << 30, "m": 1e-3, "": 1}[unit]


def test_requests_hold_what_the_page_says() -> None:
    costs, given = measured(), resources()
    assert 0.6 < memory_of(costs) / _quantity(given["requests"]["memory"]) < 1
    assert 0.4 < cpu_of(costs) / _quantity(given["requests"]["cpu"]) < 1


def test_the_limit_leaves_room_for_what_lasts_for_a_moment() -> None:
    """As the page says: half of the objects again, and 64 MB."""
    costs, limit = measured(), _quantity(resources()["limits"]["memory"])
    assert 64e6 + 1.5 * memory_of(costs) < limit
    (objects,) = re.findall(r"([0-9,]+) objects of 4 KB fit below the limit", PAGE.read_text())
    assert (
        64e6 + memory_of(costs) + 1.5 * costs.memory["an object of 4 KB, its bytes included"] * _value(f"{objects} bytes") < limit
    )


def test_the_tables_say_what_requests_are_for() -> None:
    costs = Costs({**dict.fromkeys(FULL, 2e3), "more": 5e6}, {**dict.fromkeys(BUSY, 1e-6), "rare": 1.0})
    document = sizing_document(costs, "On a machine.")
    assert "| more | 5 MB |  |" in document
    assert "| an object of 4 KB, its bytes included | 2 KB | 20,000 |" in document
    assert memory_of(costs) == pytest.approx((16 << 20) + 2e3 * sum(FULL.values()))
    assert "| **in a second** | **5.42 ms** | |" in document
