"""`python -m tests.operators`: each suite with the real binaries and with the programs of `aggserver envtest`, compared.

Then the integration tests of kubernetes, which start no program of their own, with the latter.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.controlplane.binaries import BinariesError, obtain
from tests.controlplane.toolchain import ToolchainError
from tests.operators import integration
from tests.operators.suite import PACKAGES, VERSION, SuiteError, build, listed, run, stand_ins

KUBERNETES = "kubernetes/"
"""In front of the name of a package of kubernetes' integration tests."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.operators", description=(__doc__ or "").partition("\n")[0])
    packages = f"of controller-runtime {VERSION}, or {KUBERNETES}PACKAGE of kubernetes' integration tests (default: all)"
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=packages)
    parser.add_argument("--only", choices=["real", "ours"], help="run with these programs only")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="keep the output of each run there")
    options = parser.parse_args()
    known = (*PACKAGES, *(KUBERNETES + package for package in integration.PACKAGES))
    if unknown := set(options.packages) - set(known):
        parser.error(f"there is no {', '.join(sorted(unknown))}; the packages are {', '.join(known)}")
    wanted = options.packages or known
    suites = tuple(package for package in wanted if not package.startswith(KUBERNETES))
    tests = tuple(package.removeprefix(KUBERNETES) for package in wanted if package.startswith(KUBERNETES))
    try:
        wrong = _compare(suites, options.only, options.logs) if suites else 0
        return wrong | (_integration(tests, options.logs) if tests and options.only != "real" else 0)
    except (BinariesError, SuiteError, ToolchainError, integration.IntegrationError) as error:
        print(error, file=sys.stderr)
        return 1


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _compare(packages: tuple[str, ...], only: str | None, logs: Path | None) -> int:
    folder = build(packages, os.environ, _say)
    waiting = listed()
    is_right = True
    with tempfile.TemporaryDirectory() as scratch:
        sides = {
            **({} if only == "ours" else {"real": obtain(os.environ, _say).folder}),
            **({} if only == "real" else {"ours": stand_ins(Path(scratch, "assets"))}),
        }
        for package in packages:
            for side, assets in sides.items():
                made = run(folder, package, assets, Path(scratch, "report.json"))
                passed = len(made.states) - len(made.failed)
                print(f"{package:30} {side:5} {passed:4} of {len(made.states):4} passed {made.seconds:7.1f} s", flush=True)
                if logs is not None:
                    logs.mkdir(parents=True, exist_ok=True)
                    (logs / f"{package.replace('/', '-')}-{side}.log").write_text(made.output)
                expected = waiting.get(package, set()) if side == "ours" else set()
                for spec in sorted(made.failed ^ expected):
                    is_right = False
                    print(f"    {'failed' if spec in made.failed else 'passes, and is listed in waiting.yaml'}: {spec}")
    return 0 if is_right else 1


def _integration(packages: tuple[str, ...], logs: Path | None) -> int:
    folder = integration.build(packages, os.environ, _say)
    expected = integration.expected()
    is_right = True
    with tempfile.TemporaryDirectory() as scratch:
        assets = stand_ins(Path(scratch, "assets"))
        for package in packages:
            known = expected.get(package, integration.NOTHING)
            made = integration.run(folder, package, assets, known.left_out, logs)
            passed, skipped = made.count("PASS"), made.count("SKIP")
            counted = f"{passed:4} of {len(made.results) - skipped:4} passed, {skipped} skipped, {made.seconds:7.1f} s"
            print(f"{KUBERNETES + package:30} {counted}", flush=True)
            if logs is not None:
                (logs / f"{package.replace('/', '-')}.log").write_text(made.output)
            for line in made.wrong(known):
                is_right = False
                print(f"    {line}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
