"""`python -m benchmarks.admission`: creates per second under the rules of admission, beside kube-apiserver.

Both servers have the same policies, bindings and webhooks; the webhook is the load client itself (`-webhook`), a small Go program
that allows everything. They take turns at each case. The CPU time of a create, of all programs of a server, depends less than the
rate on what else the machine does, so it tells what a rule costs.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.client import Access, LoadError, build, call, run_load
from benchmarks.report import BASELINE, MEASURED
from benchmarks.run import Say, define, progress, scratch_folder, settle
from benchmarks.servers import Aggserver, KubeApiserver, Server
from tests.controlplane.binaries import obtain
from tests.controlplane.processes import free_ports

NAMESPACE = "bench-admission"
COUNT, CLIENTS, ROUNDS = 3000, 32, 3
# Seconds until both servers know a new rule. kube-apiserver compiles policies once a second.
KNOWN_SECONDS = 3.0

JSONObject = dict[str, Any]
# Creates per second, and milliseconds of CPU for each, of every round; by case and server.
Figures = dict[tuple[str, str], list[tuple[float, float]]]
GROUP, VERSION = "admissionregistration.k8s.io", "v1"
RULES = [{"apiGroups": ["bench.aggserver.dev"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["crontabs"]}]

EXPRESSIONS = (
    "object.spec.image.startsWith('registry.example.com/')",
    "!has(object.spec.replicas) || object.spec.replicas <= 100",
    "object.spec.cronSpec.matches('^[0-9*/, -]+$')",
    "object.spec.env.all(e, e.name.startsWith('REPORT_') && size(e.value) < 100)",
    "has(object.metadata.labels) && 'tier' in object.metadata.labels",
)


@dataclass(frozen=True)
class Case:
    """rules: the objects, by the plural of their resource, given the URL and the caBundle of the webhook. aim: the factor."""

    title: str
    aim: float
    rules: Callable[[str, str], Sequence[tuple[str, JSONObject]]]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.admission", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=COUNT, help="creates of each case and round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    say = progress()
    try:
        figures = _measure(options.count, options.rounds, say)
    except LoadError as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    print(table(figures))
    return 0


def _measure(count: int, rounds: int, say: Say) -> Figures:
    figures: Figures = {}
    with scratch_folder() as folder, contextlib.ExitStack() as stack:
        binary = build(folder, say)
        url, bundle = stack.enter_context(_webhook(binary, folder / "webhook"))
        made: list[Server] = [KubeApiserver(obtain(os.environ, say), folder / BASELINE), Aggserver(folder / MEASURED)]
        servers = [stack.enter_context(server) for server in made]
        for server in servers:
            define(server.access, [NAMESPACE])
        for turn in range(rounds):
            for number, case in enumerate(CASES):
                for server in servers:
                    with _installed(server.access, case.rules(url, bundle)):
                        settle(servers)
                        flags = {"workload": "create", "clients": CLIENTS, "count": count, "namespace": NAMESPACE}
                        before = _cpu_seconds(server)
                        result = run_load(binary, server.access, {**flags, "prefix": f"c{turn}-{number}"})
                        spent = (_cpu_seconds(server) - before) / count * 1000
                    figures.setdefault((case.title, server.name), []).append((result["rate_per_second"], spent))
                    rate = f"{result['rate_per_second']:,.0f}/s, p99 {result['p99_ms']:.1f} ms"
                    say(f"{case.title}: {server.name} {rate}, {spent:.2f} ms of CPU each")
    return figures


def _cpu_seconds(server: Server) -> float:
    return sum(use.cpu_seconds for use in server.usage().values())


@contextlib.contextmanager
def _webhook(binary: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Its URL and caBundle."""
    folder.mkdir()
    process = subprocess.Popen([str(binary), f"-webhook={folder}"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def _installed(access: Access, rules: Sequence[tuple[str, JSONObject]]) -> Iterator[None]:
    for plural, rule in rules:
        call(access, "POST", f"/apis/{GROUP}/{VERSION}/{plural}", {"apiVersion": f"{GROUP}/{VERSION}", **rule})
    time.sleep(KNOWN_SECONDS)
    try:
        yield
    finally:
        for plural, rule in rules:
            call(access, "DELETE", f"/apis/{GROUP}/{VERSION}/{plural}/{rule['metadata']['name']}")


def table(figures: Figures) -> str:
    """The medians, as a table in Markdown."""
    lines = [
        "| create, 32 clients | kube-apiserver | aggserver | factor | aim | CPU ms each of both |",
        "|---|---|---|---|---|---|",
    ]
    for case in CASES:
        (theirs, their_cpu), (ours, our_cpu) = (_medians(figures[case.title, name]) for name in (BASELINE, MEASURED))
        factor = f"{ours / theirs:.2f}x"
        if ours / theirs >= case.aim:
            factor = f"**{factor}**"
        cpu = f"{their_cpu:.2f} / {our_cpu:.2f}"
        lines.append(f"| {case.title} | {theirs:,.0f}/s | {ours:,.0f}/s | {factor} | {case.aim:g}x | {cpu} |")
    return "\n".join(lines)


def _medians(rounds: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(rate for rate, _ in rounds), statistics.median(spent for _, spent in rounds)


# --- the rules


def _policy(name: str) -> tuple[str, JSONObject]:
    return "validatingadmissionpolicies", {
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": RULES},
            "validations": [{"expression": expression} for expression in EXPRESSIONS],
        },
    }


def _binding(name: str, policy: str, namespace: str) -> tuple[str, JSONObject]:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return "validatingadmissionpolicybindings", {
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": policy, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": selector}},
    }


def _webhook_configuration(url: str, bundle: str, failure_policy: str) -> list[tuple[str, JSONObject]]:
    webhook = {
        "name": "bench.example.com",
        "clientConfig": {"url": f"{url}/validate", "caBundle": bundle},
        "rules": RULES,
        "failurePolicy": failure_policy,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return [
        (
            "validatingwebhookconfigurations",
            {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "bench"}, "webhooks": [webhook]},
        )
    ]


def _not_matching(url: str, bundle: str) -> list[tuple[str, JSONObject]]:
    return [_policy("other"), *(_binding(f"other-{number}", "other", f"team-{number}") for number in range(50))]


def _three_policies(url: str, bundle: str) -> list[tuple[str, JSONObject]]:
    names = [f"bench-{number}" for number in range(3)]
    return [*(_policy(name) for name in names), *(_binding(name, name, NAMESPACE) for name in names)]


def _down(url: str, bundle: str) -> list[tuple[str, JSONObject]]:
    return _webhook_configuration(f"https://127.0.0.1:{free_ports(1)[0]}", bundle, "Ignore")


CASES = (
    Case("no rule", 4, lambda url, bundle: []),
    Case("50 bindings for other namespaces", 4, _not_matching),
    Case("3 policies of 5 expressions each", 4, _three_policies),
    Case("one validating webhook", 2, lambda url, bundle: _webhook_configuration(url, bundle, "Fail")),
    Case("one validating webhook that is down and ignored", 2, _down),
)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
