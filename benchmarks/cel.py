"""`python -m benchmarks.cel`: the time that rules (x-kubernetes-validations) take, compared with kube-apiserver.

Ten typical rules (rules.yaml) are compiled and evaluated here and by kube-apiserver's packages (celgo/main.go), alternating at
each case. Both must have the same result, cost and estimate, otherwise the run fails. Then both servers create objects with a
definition that has twenty rules, as in the main benchmark. This is the only command that imports aggserver, because the time of a
single rule can't be measured from outside. benchmarks.cel_report makes the table.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from aggserver.cel.program import Program
from aggserver.cel.values import CELError, Optional
from aggserver.schema import structural
from aggserver.schema.compiled_rules import CompiledRule, compile_rules
from aggserver.schema.decl_type import declare
from benchmarks.__main__ import CONNECTIONS, PAGE
from benchmarks.cel_report import PARTS, RULES, RULES_SECTION, TWENTY_RULES, cel_document
from benchmarks.client import LoadError, build
from benchmarks.report import BASELINE, MEASURED
from benchmarks.run import DEFINITION, Options, Say, conditions, keep, measure, progress, scratch_folder, show
from tests.controlplane.binaries import BinariesError
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError

HERE = Path(__file__).parent
CASES = HERE / "rules.yaml"
DEFINED_RULES = HERE / "crontab_rules.yaml"

# Both take turns at each case, so that a change in the machine's speed affects both: the number of turns, batches per turn, and
# seconds per batch. The result is the median of all batches.
TURNS, BATCHES, BATCH_SECONDS = 5, 3, 0.05

# The figures that are compared.
TAKEN = ("evaluation", "compilation", "environment")

# The cost limit of one evaluation: k8s.io/apiserver pkg/apis/cel/config.go.
PER_CALL_LIMIT = 1_000_000

# As in celgo/main.go.
COPIES = 10

# Number of objects that are created first, to warm up both servers.
OBJECTS = 1000


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cel", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", choices=PARTS, help="measure only this one")
    parser.add_argument("--write-docs", action="store_true", help=f"write the tables to their section of {PAGE.name}")
    parser.add_argument("--report", type=Path, metavar="FILE", help="measure nothing, use the results of an earlier run")
    options = parser.parse_args(arguments)
    if options.write_docs and options.part:
        parser.error("the documents are for whole runs")
    try:
        report = json.loads(options.report.read_text()) if options.report else _measure(options.part)
    except (LoadError, ProcessError, BinariesError, ToolchainError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    show(cel_document(report), PAGE, RULES_SECTION, write=options.write_docs)
    return 1 if "create" in report and report["create"]["failed"] else 0


def _measure(part: str | None) -> dict[str, Any]:
    say = progress()
    report = conditions()
    if part in (None, RULES):
        report[RULES] = _measure_rules(say)
    if part in (None, "create"):
        report["create"] = measure(_plan(), say)
    keep(report, say)
    return report


# --- single rules ---


def _measure_rules(say: Say) -> list[dict[str, Any]]:
    found = []
    with _celgo(say) as ask:
        for case in yaml.safe_load(CASES.read_text()):
            say(case["name"])
            turns = [agreed(case["name"], {BASELINE: ask(case), MEASURED: _figures(case)}) for _ in range(TURNS)]
            found.append({"name": case["name"], **in_all(turns)})
    return found


def agreed(name: str, figures: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The common result of both sides, and the times of each. Raises LoadError if the results differ."""
    answers = {server: {each: of[each] for each in ("verdict", "cost", "static_cost")} for server, of in figures.items()}
    if answers[BASELINE] != answers[MEASURED]:
        raise LoadError(f"{name}: {answers}")
    taken = {each: {server: of[each] for server, of in figures.items()} for each in TAKEN}
    return {**answers[BASELINE], **taken}


def in_all(turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The batches of all turns at one case."""
    taken = {
        each: {server: [batch for turn in turns for batch in turn[each][server]] for server in (BASELINE, MEASURED)}
        for each in TAKEN
    }
    return {**turns[0], **taken}


@contextlib.contextmanager
def _celgo(say: Say) -> Iterator[Callable[[Mapping[str, Any]], Any]]:
    """A function that measures a case with kube-apiserver's packages. It raises LoadError."""
    with scratch_folder() as folder:
        say("building celgo")
        binary = build(folder, say, HERE / "celgo")
        with subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            questions, answers = process.stdin, process.stdout

            def ask(case: Mapping[str, Any]) -> Any:
                values = {name: case[name] for name in ("object", "oldObject") if name in case}
                question = {"schema": schema_of(case), **values, "batches": BATCHES, "seconds": BATCH_SECONDS}
                questions.write(f"{json.dumps(question)}\n")
                questions.flush()
                answer = answers.readline()
                if not answer:
                    raise LoadError(f"celgo ended at {case['name']!r}")
                return json.loads(answer)

            try:
                yield ask
            finally:
                questions.close()


def schema_of(case: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the node with the rule of the case."""
    rule = {name: case[name] for name in ("rule", "optionalOldSelf") if name in case}
    return {**case["schema"], structural.VALIDATIONS: [rule]}


def _figures(case: Mapping[str, Any]) -> dict[str, Any]:
    """As celgo has them."""
    schema = schema_of(case)
    program, variables = _program(_compile(schema, 1)), _variables(case)
    one = _time(lambda: _compile(schema, 1))
    many = _time(lambda: _compile(schema, COPIES))
    each = [(all_of_them - first) / (COPIES - 1) for first, all_of_them in zip(one, many, strict=True)]
    return {
        **answer(case),
        "evaluation": _time(lambda: program(variables(), PER_CALL_LIMIT)),
        "compilation": each,
        "environment": [first - rule for first, rule in zip(one, each, strict=True)],
    }


def answer(case: Mapping[str, Any]) -> dict[str, Any]:
    """The result, its cost, and the estimate. Raises LoadError if the rule does not compile."""
    schema = schema_of(case)
    rule = _compile(schema, 1)
    try:
        value, cost = _program(rule)(_variables(case)(), PER_CALL_LIMIT)
    except CELError as error:
        value, cost = error, error.cost
    verdict = str(value).lower() if isinstance(value, bool) else str(value)
    return {"verdict": verdict, "cost": cost, "static_cost": rule.expression.max_cost()}


def _program(rule: CompiledRule) -> Program:
    program = rule.expression.program()
    if program is None:
        raise LoadError(rule.expression.error)
    return program


def _compile(schema: Mapping[str, Any], copies: int) -> CompiledRule:
    """Everything that is done with a node's rules before they are evaluated. Returns the first rule.

    A server does it in two steps: it estimates when a definition is checked, and makes programs when rules are first evaluated.
    """
    declared = declare(structural.compile(schema))
    assert declared is not None
    compiled = compile_rules(schema[structural.VALIDATIONS] * copies, declared)
    for each in compiled:
        each.expression.max_cost()
        each.expression.program()
    return compiled[0]


def _variables(case: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
    """A function that makes the variables, as is done for each object."""
    value, old = case["object"], case.get("oldObject")
    if old is None:
        return lambda: {"self": value}
    if case.get("optionalOldSelf"):
        return lambda: {"self": value, "oldSelf": Optional(old)}
    return lambda: {"self": value, "oldSelf": old}


def _time(call: Callable[[], object]) -> list[float]:
    """Microseconds per call in each batch, after one batch for warming up."""
    count, taken = 1, _timed(call, 1)
    while taken < BATCH_SECONDS / 2:
        count *= 2
        taken = _timed(call, count)
    count = max(1, int(count * BATCH_SECONDS / taken))
    return [_timed(call, count) * 1e6 / count for _ in range(BATCHES)]


def _timed(call: Callable[[], object], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - began


# --- objects with twenty rules ---


def definition_with_rules() -> dict[str, Any]:
    """The definition of the benchmarks with the rules of crontab_rules.yaml."""
    definition: dict[str, Any] = yaml.safe_load(DEFINITION.read_text())
    schema = definition["spec"]["versions"][0]["schema"]
    schema["openAPIV3Schema"] = _merged(schema["openAPIV3Schema"], yaml.safe_load(DEFINED_RULES.read_text()))
    return definition


def _merged(schema: Mapping[str, Any], rules: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **schema,
        **{name: _merged(schema[name], part) if isinstance(part, dict) else part for name, part in rules.items()},
    }


def _plan() -> Options:
    return Options(
        workloads=[TWENTY_RULES],
        objects=OBJECTS,
        rounds=3,
        seconds=0.0,
        connections=CONNECTIONS,
        definition=definition_with_rules(),
        # An object that only breaks a rule, because a server that evaluates no rules would be fast.
        refused={"cronSpec": "*/5 * * * *", "image": "registry.example.com/report:latest"},
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
