"""`aggserver doctor`: gathers facts, checks them, prints findings, and says by its exit status whether there are any."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from aggserver.cluster import ClusterError, Unreachable
from aggserver.cluster.client import connect
from aggserver.cluster.configuration import ConfigurationError
from aggserver.commands.doctor import access, moves, pods, reach, trust
from aggserver.commands.doctor.finding import Finding, Severity, in_order
from aggserver.commands.doctor.found import InstallationFacts
from aggserver.commands.doctor.gather import Gatherer
from aggserver.commands.doctor.report import findings_json, findings_text
from aggserver.options import Options

__all__ = ["diagnose", "run"]

# Exit statuses.
WELL, FINDINGS, BLIND = 0, 1, 2

# In the order of a request's way: from kube-apiserver to the server, then what the server does.
_CHECKS = (reach.checks, pods.checks, trust.checks, access.checks, moves.checks)

_NOT_INSTALLED = Finding(
    "installation",
    Severity.ERROR,
    "cluster",
    "no APIService and no Service of aggserver was found",
    "APIServices of aggserver have the label app.kubernetes.io/managed-by=aggserver, Services app.kubernetes.io/name=aggserver; "
    "--service-namespace and --service-name name another Service",
    "kubectl apply --kustomize manifests",
)

Say = Callable[[str], None]


def diagnose(facts: InstallationFacts) -> list[Finding]:
    """All findings about one installation. One without anything wrong has none."""
    checks = (reach.checks,) if facts.is_only_named else _CHECKS
    return in_order(itertools.chain.from_iterable(check(facts) for check in checks))


async def run(options: Options, version: str, environ: Mapping[str, str], say: Say, tell: Say) -> int:
    """Run the command. say: takes the result; tell: lines on what is done, and why nothing could be.

    Returns the exit status: 0 if nothing is wrong, 1 with findings, 2 if it could not look.
    """
    try:
        cluster = await connect(_kubeconfig(options, environ), f"aggserver/{version}", options.context)
    except ConfigurationError as error:
        tell(f"aggserver: {error}")
        return BLIND
    try:
        found = await Gatherer(cluster, options, tell).installations()
    except (ClusterError, Unreachable) as error:
        tell(f"aggserver: kube-apiserver can't be asked: {error}")
        return BLIND
    finally:
        await cluster.close()
    return _report(options, found, say)


def _report(options: Options, found: Iterable[InstallationFacts], say: Say) -> int:
    installations: list[str] = []
    unread: dict[str, str] = {}
    findings: list[Finding] = []
    for facts in found:
        installations.append(facts.where)
        unread.update(facts.unread)
        findings += diagnose(facts)
    if not installations:
        findings.append(_NOT_INSTALLED)
    findings = in_order(findings)
    if options.output == "json":
        say(json.dumps(findings_json(findings, installations, unread), indent=2, ensure_ascii=False))
    else:
        say(findings_text(findings, installations, unread))
    return FINDINGS if findings else BLIND if unread else WELL


def _kubeconfig(options: Options, environ: Mapping[str, str]) -> str:
    """As kubectl: the flag, KUBECONFIG, ~/.kube/config. '' for the pod's service account, where none of them is there."""
    if options.kubeconfig is not None:
        return str(options.kubeconfig)
    if named := environ.get("KUBECONFIG", ""):
        return named
    usual = Path(os.path.expanduser("~/.kube/config"))
    return str(usual) if usual.is_file() else ""
