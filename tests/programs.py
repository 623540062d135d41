"""`python -m tests.programs`: builds the programs in Go that `make integration` and `make long` need, before the first test, and
installs pyright.

A fixture that needs one still asks for it, and finds it in the cache; so a test that is run alone builds what it needs. Nothing
is printed where everything is there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from tests.conformance import suite as conformance
from tests.controlplane.binaries import BinariesError, obtain, obtain_program
from tests.controlplane.toolchain import ToolchainError
from tests.h2spec import suite as h2spec
from tests.helm import program as helm
from tests.kine import program as kine
from tests.konnectivity import programs as konnectivity
from tests.metrics_adapter import program as metrics_adapter
from tests.operators import suite as operators
from tests.operators.test_controller_runtime import AT_LEAST
from tests.packages import PackagesError
from tests.pyright import program as pyright
from tests.rclone import program as rclone
from tests.sample_apiserver import program as sample_apiserver
from tests.workflows import actionlint

Say = Callable[[str], None]
Build = Callable[[Mapping[str, str], Say], object]


def _program(name: str) -> Build:
    return lambda environ, say: obtain_program(name, environ, say)


# In the order in which Go can use most of what it has compiled already.
_BUILDS: tuple[Build, ...] = (
    obtain,
    _program("informer"),
    _program("merger"),
    _program("types"),
    konnectivity.build,
    sample_apiserver.build,
    metrics_adapter.build,
    helm.build,
    kine.build,
    rclone.build,
    actionlint.build,
    h2spec.build,
    pyright.build,
    conformance.build,
    lambda environ, say: operators.build(AT_LEAST, environ, say),
    lambda environ, say: operators.obtain_program("shelves", environ, say),
)

_FAILURES = (
    BinariesError,
    PackagesError,
    ToolchainError,
    conformance.SuiteError,
    h2spec.SuiteError,
    konnectivity.ProgramsError,
    operators.SuiteError,
)


def main() -> int:
    try:
        for build in _BUILDS:
            build(os.environ, lambda line: print(line, flush=True))
    except _FAILURES as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
