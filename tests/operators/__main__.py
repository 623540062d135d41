"""`python -m tests.operators`: each suite with the real binaries and with the programs of `aggserver envtest`, compared."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.controlplane.binaries import BinariesError, obtain
from tests.controlplane.toolchain import ToolchainError
from tests.operators.suite import PACKAGES, VERSION, SuiteError, build, listed, run, stand_ins


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.operators", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of controller-runtime {VERSION} (default: all)")
    parser.add_argument("--only", choices=["real", "ours"], help="run with these programs only")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="keep the output of each run there")
    options = parser.parse_args()
    if unknown := set(options.packages) - set(PACKAGES):
        parser.error(f"there is no {', '.join(sorted(unknown))}; the packages are {', '.join(PACKAGES)}")
    try:
        return _compare(options.packages or PACKAGES, options.only, options.logs)
    except (BinariesError, SuiteError, ToolchainError) as error:
        print(error, file=sys.stderr)
        return 1


def _compare(packages: tuple[str, ...], only: str | None, logs: Path | None) -> int:
    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    folder = build(packages, os.environ, say)
    waiting = listed()
    is_right = True
    with tempfile.TemporaryDirectory() as scratch:
        sides = {
            **({} if only == "ours" else {"real": obtain(os.environ, say).folder}),
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


if __name__ == "__main__":
    sys.exit(main())
