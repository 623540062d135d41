"""`python -m tests.operators`: each suite with the real binaries and with the programs of `aggserver envtest`, compared.

Then the integration tests of kubernetes, which start no program of their own, with the latter; and its end-to-end specs that need
no running container, with a control plane without nodes and with `aggserver dev`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.controlplane.binaries import BinariesError, obtain
from tests.controlplane.toolchain import ToolchainError
from tests.operators import e2e_suite, integration
from tests.operators.suite import PACKAGES, VERSION, SuiteError, build, listed, run, stand_ins

KUBERNETES = "kubernetes/"
"""In front of the name of a package of kubernetes' integration tests."""
E2E = "e2e"
"""Stands for kubernetes' end-to-end specs."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.operators", description=(__doc__ or "").partition("\n")[0])
    packages = f"of controller-runtime {VERSION}, {KUBERNETES}PACKAGE of kubernetes' integration tests, or {E2E} (default: all)"
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=packages)
    parser.add_argument("--only", choices=["real", "ours"], help="run with these programs only")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="keep the output of each run there")
    parser.add_argument("--find", action="store_true", help=f"with {E2E}: look for specs that are not listed; half an hour")
    options = parser.parse_args()
    known = (*PACKAGES, *(KUBERNETES + package for package in integration.PACKAGES), E2E)
    if unknown := set(options.packages) - set(known):
        parser.error(f"there is no {', '.join(sorted(unknown))}; the packages are {', '.join(known)}")
    wanted = options.packages or known
    suites = tuple(package for package in wanted if package in PACKAGES)
    tests = tuple(package.removeprefix(KUBERNETES) for package in wanted if package.startswith(KUBERNETES))
    try:
        wrong = _compare(suites, options.only, options.logs) if suites else 0
        wrong |= _integration(tests, options.logs) if tests and options.only != "real" else 0
        return wrong | (_end_to_end(options) if E2E in wanted else 0)
    except (BinariesError, SuiteError, ToolchainError, integration.IntegrationError, e2e_suite.E2EError) as error:
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


def _end_to_end(options: argparse.Namespace) -> int:
    programs, listed = e2e_suite.build(os.environ, _say), e2e_suite.listed()
    is_right = True
    for side in ["real"] if options.find else [options.only] if options.only else e2e_suite.SIDES:
        with (
            tempfile.TemporaryDirectory() as scratch,
            e2e_suite.SIDES[side](os.environ, _say, Path(scratch)) as (kubeconfig, kubectl),
        ):
            if options.find:
                made = e2e_suite.search(programs, kubeconfig, kubectl)
            else:
                made = e2e_suite.run(programs, kubeconfig, kubectl, listed.all if side == "real" else listed.passing)
                if side == "ours" and listed.waiting:
                    seconds = e2e_suite.WAITING_SECONDS
                    made = made.with_more(e2e_suite.run(programs, kubeconfig, kubectl, listed.waiting, seconds=seconds))
        of = len(made.states) if options.find else len(listed.all)
        print(f"{E2E:30} {side:5} {len(made.passed):4} of {of:4} passed {made.seconds:7.1f} s", flush=True)
        if options.logs is not None:
            options.logs.mkdir(parents=True, exist_ok=True)
            (options.logs / f"{E2E}-{side}.log").write_text(made.output)
        expected = listed.passing if side == "ours" else listed.all
        for spec in sorted(made.passed - expected):
            is_right = False
            print(f"    passes, and is {'listed as waiting' if spec in listed.waiting else 'not listed'} in e2e.yaml: {spec}")
        for spec in sorted(() if options.find else expected - made.passed):
            is_right = False
            print(f"    {made.states.get(spec, 'did not run')}: {spec}\n        {made.messages.get(spec, '')[:400]}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
