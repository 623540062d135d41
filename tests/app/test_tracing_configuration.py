"""--tracing-config-file: what it may say, and that everything else is refused with file and field."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from aggserver.app.errors import StartError
from aggserver.app.tracing_configuration import TracingConfiguration, open_tracer, read_configuration

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
GOOD = {
    "nothing": (HEAD, TracingConfiguration("localhost:4317", 0)),
    "all": (f"{HEAD}endpoint: collector:4317\nsamplingRatePerMillion: 100\n", TracingConfiguration("collector:4317", 100)),
    "a beta version": (
        HEAD.replace("/v1", "/v1beta1") + "samplingRatePerMillion: 1000000\n",
        TracingConfiguration("localhost:4317", 1_000_000),
    ),
    "a socket": (f"{HEAD}endpoint: unix:///run/collector\n", TracingConfiguration("unix:///run/collector", 0)),
    "JSON, and null": (
        '{"apiVersion":"apiserver.config.k8s.io/v1alpha1","kind":"TracingConfiguration","endpoint":null}',
        TracingConfiguration(),
    ),
}
BAD = {
    "another kind": ("apiVersion: v1\nkind: Pod\n", "must be a TracingConfiguration of apiserver.config.k8s.io/v1, "),
    "no object": ("- a\n", "must be a TracingConfiguration"),
    "no YAML": ("a: [\n", "yaml"),
    "an unknown field": (f"{HEAD}rate: 1\n", 'strict decoding error: unknown field "rate"'),
    "a negative rate": (
        f"{HEAD}samplingRatePerMillion: -1\n",
        "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
    ),
    "a rate above all": (
        f"{HEAD}samplingRatePerMillion: 1000001\n",
        "samplingRatePerMillion: Invalid value: 1000001: sampling rate per million must be less than or equal to one million",
    ),
    "a rate that is a text": (f"{HEAD}samplingRatePerMillion: all\n", "samplingRatePerMillion: must be an integer"),
    "a rate that is true": (f"{HEAD}samplingRatePerMillion: true\n", "samplingRatePerMillion: must be an integer"),
    "an endpoint that is a number": (f"{HEAD}endpoint: 4317\n", "endpoint: must be a string"),
    "a URL": (
        f"{HEAD}endpoint: http://collector:4317\n",
        'endpoint: Invalid value: "http://collector:4317": unsupported scheme: http.',
    ),
}


@pytest.mark.parametrize(("text", "expected"), GOOD.values(), ids=GOOD)
def test_what_it_says(text: str, expected: TracingConfiguration, tmp_path: Path) -> None:
    file = tmp_path / "tracing.yaml"
    file.write_text(text)
    assert read_configuration(file) == expected


@pytest.mark.parametrize(("text", "why"), BAD.values(), ids=BAD)
def test_what_is_refused(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "tracing.yaml"
    file.write_text(text)
    with pytest.raises(StartError, match=f"--tracing-config-file: {re.escape(str(file))}: .*{re.escape(why)}"):
        read_configuration(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"can't read .*No such file"):
        read_configuration(tmp_path / "none")


def test_the_extra_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tracing.yaml"
    file.write_text(HEAD)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.delitem(sys.modules, "aggserver.tracing.export", raising=False)
    with pytest.raises(StartError, match=r"pip install 'aggserver\[otel\]'"), open_tracer(file, "1", lambda: "one"):
        pass


def test_nothing_is_made_without_the_flag() -> None:
    with open_tracer(None, "1", lambda: "one") as tracer:
        assert tracer is None
