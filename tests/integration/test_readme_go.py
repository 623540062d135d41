"""README.md's snippet in Go: built with client-go, and run by the command that stands above it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.controlplane.binaries import MODULE, go_environment
from tests.controlplane.toolchain import go_command

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text()
[SNIPPET] = re.findall(r"```go\n(.*?)```", README, re.DOTALL)
IMPORTS = """\
package main

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

"""


def test_go(tmp_path: Path) -> None:
    assert "`aggserver dev -f crd.yaml -- go test ./...`" in README
    source = tmp_path / "readme_test.go"
    source.write_text(IMPORTS + SNIPPET)
    # It is in the folder of another program for the toolchain alone: there it finds client-go, and nothing is written.
    overlay = tmp_path / "overlay.json"
    overlay.write_text(json.dumps({"Replace": {str(MODULE / "informer" / "readme_test.go"): str(source)}}))
    go = [go_command(MODULE / "go.mod", print), "test", "-count=1", "-overlay", str(overlay), "./informer"]
    definition = REPOSITORY / "manifests" / "examples" / "crontab.yaml"
    done = subprocess.run(
        [sys.executable, "-m", "aggserver", "dev", "-f", str(definition), "--", *go],
        cwd=MODULE,
        env={**go_environment(os.environ), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok")
