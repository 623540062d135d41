"""Whether definitions are served, and move: those of the server's folder, and those of the cluster that it is to adopt. Pure.

What stands in the way of a move is what `families.families` says to the server itself. `aggserver adopt status` shows what the
server has written of its moves; here is what nobody writes, since no server looks, or the server looks elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aggserver.adoption.families import ADOPTION, CLEANUP, FINALIZER, OPENED, families, group_versions
from aggserver.adoption.leftovers.version import VERSION
from aggserver.adoption.records.record import LEASE, Phase
from aggserver.adoption.switch.api_services import name_of
from aggserver.apiextensions.api_service import ADOPTED, MANAGED_BY_LABEL, ownership
from aggserver.apiextensions.api_service import ADOPTION as LED_BY_ADOPTION
from aggserver.commands.adopt.plan import elsewhere
from aggserver.commands.doctor.finding import Finding, Severity, listed
from aggserver.commands.doctor.found import InstallationFacts, labels, name
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.selectors import LabelSelector
from aggserver.meta.times import format_time, parse_time

__all__ = ["ADOPT_LABEL", "checks"]

# The label that manifests/adoption/deployment.yaml selects.
ADOPT_LABEL = "aggserver.io/adopt"

# A move waits for nobody longer than this in any phase but Copying and GivingBack, which take as long as there are objects.
_LONG_SECONDS = 600.0

# A Lease that was renewed so much later than now shows that its holder's clock is ahead.
_MOST_AHEAD_SECONDS = 30.0
_BRIEF = frozenset({Phase.GUARDING.value, Phase.SWITCHING.value, Phase.SWITCHING_BACK.value})


def checks(facts: InstallationFacts) -> Iterator[Finding]:
    yield from _folder(facts)
    if facts.knows("definitions of the cluster"):
        yield from _not_asked(facts)
        yield from _remains(facts)
    if facts.selector is not None:
        yield from _lease(facts)
        yield from _guard(facts)
        yield from _entries(facts)
        if facts.knows("definitions of the cluster", "APIServices"):
            yield from _waiting(facts)
    for each in facts.task_leases:
        spec = each["spec"]
        yield Finding(
            "task-lease",
            Severity.WARNING,
            f"Lease {facts.service.namespace}/{name(each)}",
            f"its holder {spec.get('holderIdentity')} has not renewed it since {spec.get('renewTime')}",
            "no server runs the tasks of this App: it has ended, or can't write to the cluster",
            _logs(facts),
        )


def _logs(facts: InstallationFacts) -> str:
    deployment = name(facts.deployment) if facts.deployment is not None else facts.service.name
    return f"kubectl logs deployment/{deployment} --namespace {facts.service.namespace} --tail 50"


def _adopt(facts: InstallationFacts, *words: str) -> str:
    return f"aggserver adopt {' '.join(words)} --service-namespace {facts.service.namespace}"


# --- the folder ---


def _folder(facts: InstallationFacts) -> Iterator[Finding]:
    for each in facts.definition_problems:
        yield Finding(
            "definition",
            Severity.ERROR,
            f"ConfigMap of {facts.where}",
            f"a definition can't be served: {each}",
            "the others are; one that was valid before is served as it was",
            f"correct the file, and: {facts.all_applied()}",
        )
    if not facts.knows("APIServices"):
        return
    by_name = {name(each): each for each in facts.api_services}
    for definition in facts.definitions:
        for version in definition.versions:
            if not version.served:
                continue
            wanted = name_of((definition.group, version.name))
            found = by_name.get(wanted)
            if found is None:
                yield Finding(
                    "api-service-missing",
                    Severity.ERROR,
                    f"APIService {wanted}",
                    f"it does not exist, and the server's folder has {definition.name}",
                    "the server makes it when it is ready, has the right to, and nothing refuses it",
                    _logs(facts),
                )
            elif (whose := ownership(found, facts.service)) not in ("", ADOPTED):
                is_hosts = "CustomResourceDefinition" in whose
                mend = f"kubectl delete crd {definition.name}" if is_hosts else f"kubectl delete apiservice {wanted}"
                yield Finding(
                    "api-service-of-others",
                    Severity.ERROR,
                    f"APIService {wanted}",
                    f"it is {whose}; the server's folder has {definition.name}, and clients don't reach that",
                    "the server leaves APIServices of others alone"
                    + (": with the cluster's definition its objects go, unless they are adopted" if is_hosts else ""),
                    mend,
                )


# --- definitions that nobody adopts, and what is left of those that were ---


def _not_asked(facts: InstallationFacts) -> Iterator[Finding]:
    """Definitions with the label of the manifests that the server's selector does not match."""
    selector = None if facts.selector is None else LabelSelector.parse(facts.selector)
    for crd in facts.crds:
        value = labels(crd).get(ADOPT_LABEL)
        if value is None or value == "false" or (selector is not None and selector.matches(labels(crd))):
            continue
        if selector is None:
            why = f"the server behind {facts.where} has no --adopt"
            mend = facts.all_applied(adoption=True)
        elif ADOPT_LABEL not in str(facts.selector):
            continue
        else:
            why = f"the server adopts what matches {facts.selector}"
            mend = f"kubectl label --overwrite crd {name(crd)} {ADOPT_LABEL}=true"
        what = f"it has the label {ADOPT_LABEL}={value}, and nothing adopts it"
        yield Finding("adoption-label", Severity.WARNING, f"CustomResourceDefinition {name(crd)}", what, why, mend)


def _remains(facts: InstallationFacts) -> Iterator[Finding]:
    """What stays at a definition, or leads here, although the status does not have it."""
    if not facts.knows("status"):
        return
    entries = facts.entries or {}
    moves = not facts.lease_problem and facts.lease is not None
    for crd in facts.crds:
        where = f"CustomResourceDefinition {name(crd)}"
        if crd.get(OPENED) and not (moves and CLEANUP in (crd["metadata"].get("annotations") or {})):
            yield Finding(
                "leftovers-version",
                Severity.WARNING,
                where,
                f"it serves the version {VERSION}, by which leftovers of a move are removed, and nobody removes them",
                "the server that did has ended; the next one takes the version away",
                _logs(facts) if moves else "kubectl rollout restart deployment --namespace " + facts.service.namespace,
            )
        if FINALIZER in (crd["metadata"].get("finalizers") or ()) and name(crd) not in entries and not moves:
            deleted = " and is being deleted, which waits for it" if "deletionTimestamp" in crd["metadata"] else ""
            yield Finding(
                "adopted-finalizer",
                Severity.WARNING,
                where,
                f"it has the finalizer {FINALIZER}{deleted}; no server is there that has adopted it",
                "the server with its objects is away: start it on its store. If that is lost, release from a backup, or give the "
                "objects up",
                f"aggserver adopt release --from-backup FILE {name(crd)}",
            )
    known = {(crd["spec"]["group"], version["name"]) for crd in facts.crds for version in crd["spec"]["versions"]}
    for each in facts.ours():
        if labels(each).get(MANAGED_BY_LABEL) == LED_BY_ADOPTION:
            group, version = each["spec"]["group"], each["spec"]["version"]
            if (group, version) not in known:
                yield Finding(
                    "adopted-api-service",
                    Severity.WARNING,
                    f"APIService {name(each)}",
                    "it leads to an adopted group-version, and the cluster has no definition that serves it",
                    "the definition was deleted, or no longer has the version, while no server ran",
                    f"kubectl delete apiservice {name(each)}",
                )


# --- moves ---


def _lease(facts: InstallationFacts) -> Iterator[Finding]:
    if facts.lease_problem and facts.knows("Lease"):
        yield Finding(
            "lease",
            Severity.ERROR,
            f"Lease {facts.service.namespace}/{LEASE}",
            facts.lease_problem,
            "of several servers the one with this Lease moves definitions",
            _logs(facts),
        )
    renewed = ((facts.lease or {}).get("spec") or {}).get("renewTime")
    if renewed and not facts.lease_problem and (ahead := parse_time(str(renewed)) - facts.now) > _MOST_AHEAD_SECONDS:
        yield Finding(
            "lease-clock",
            Severity.WARNING,
            f"Lease {facts.service.namespace}/{LEASE}",
            f"its holder has renewed it at {renewed}, and it is {format_time(facts.now)} at kube-apiserver",
            f"the holder's clock is {ahead:.0f} s ahead",
            "set the clocks of the nodes, as by: timedatectl set-ntp true",
        )


def _guard(facts: InstallationFacts) -> Iterator[Finding]:
    """The guard refuses writes at kube-apiserver's own objects of what is adopted."""
    if not facts.knows("guard", "status"):
        return
    guarded = {
        definition
        for definition, each in (facts.entries or {}).items()
        if each.get("phase") in (Phase.GUARDING, Phase.SWITCHING, Phase.ADOPTED, Phase.GIVING_BACK) and not each.get("shared")
    }
    if guarded and facts.guard is None:
        yield Finding(
            "guard",
            Severity.ERROR,
            f"ValidatingWebhookConfiguration of {facts.where}",
            f"it does not exist, and {listed(sorted(guarded))} are adopted",
            "kube-apiserver would take writes of what is left in its etcd; the server that moves puts it back within ten seconds",
            _logs(facts),
        )
    if facts.guard is not None and facts.lease_problem:
        names = {
            f"{resource}.{group}"
            for rule in (facts.guard.get("webhooks") or [{}])[0].get("rules") or ()
            for group in rule.get("apiGroups") or ()
            for resource in rule.get("resources") or ()
            if "/" not in resource
        }
        if left := sorted(names - guarded):
            yield Finding(
                "guard-left",
                Severity.ERROR,
                f"ValidatingWebhookConfiguration {name(facts.guard)}",
                f"it refuses every write of {listed(left)}, which are not adopted, and no server moves definitions",
                "the server ended in the middle of a move; the next one goes on, or takes the guard away",
                f"kubectl delete validatingwebhookconfiguration {name(facts.guard)}",
            )


def _entries(facts: InstallationFacts) -> Iterator[Finding]:
    """What the status says of moves that don't end, and of adopted families that are not well."""
    alike: dict[str, list[str]] = {}
    for definition, each in (facts.entries or {}).items():
        where = f"CustomResourceDefinition {definition}"
        degraded = [c["message"] for c in each.get("conditions") or () if c["type"] == "Degraded" and c["status"] == "True"]
        told = str((each.get("told") or {}).get("message") or "")
        reason = str(each.get("reason") or "")
        phase = str(each.get("phase"))
        since = str(each.get("since"))
        if phase == Phase.WAITING:
            alike.setdefault(reason or told or "no reason is known", []).append(definition)
        elif degraded:
            mend = _adopt(facts, "status")
            yield Finding("adopted-degraded", Severity.ERROR, where, f"it is adopted, and not well: {degraded[0]}", told, mend)
        elif phase in _BRIEF and facts.now - parse_time(since) > _LONG_SECONDS:
            what = f"it is {phase} since {since}; its clients can't write meanwhile"
            why = reason or told or "the server's log says what it waits for"
            yield Finding("move-stuck", Severity.ERROR, where, what, why, _logs(facts))
        elif reason and phase == Phase.ADOPTED:
            what = f"it is adopted, and something asked of it failed: {reason}"
            yield Finding("adopted-reason", Severity.WARNING, where, what, told, _adopt(facts, "status"))
    for reason, names in alike.items():
        plural = "s" if len(names) > 1 else ""
        yield Finding(
            "move-waiting",
            Severity.ERROR,
            f"CustomResourceDefinition{plural} {listed(names)}",
            f"it does not move: {reason}" if len(names) == 1 else f"they do not move: {reason}",
            "the server tries again by itself, after at most five minutes, once the cause is gone",
            _mending(facts, reason),
        )


def _waiting(facts: InstallationFacts) -> Iterator[Finding]:
    """Definitions that match the selector, and of which the status says nothing."""
    entries = facts.entries or {}
    others, ours = elsewhere(facts.api_services, facts.service)
    for family in families(facts.crds, LabelSelector.parse(facts.selector or ""), (), others, facts.refused, ours):
        if any(each in ours for each in family.group_versions) or any(each in entries for each in family.definitions):
            continue
        obstacles = family.obstacles
        where = f"CustomResourceDefinition{'s' if len(family.definitions) > 1 else ''} {listed(family.definitions)}"
        if obstacles:
            text = "; ".join(obstacles)
            yield Finding(
                "adoption-obstacle", Severity.ERROR, where, "it is to be adopted, and can't be", text, _mending(facts, text)
            )
        elif not facts.lease_problem:
            yield Finding(
                "adoption-overlooked",
                Severity.ERROR,
                where,
                "it is to be adopted, and the server that moves definitions says nothing of it",
                f"its --adopt may select something else than {facts.selector!r}, or it can't read the definitions",
                _logs(facts),
            )
    yield from _versions(facts, entries)


def _versions(facts: InstallationFacts, entries: Mapping[str, JSONMapping]) -> Iterator[Finding]:
    """Versions of adopted definitions that lead elsewhere, and stored versions that are no version any more."""
    leads_here = {(str(each["spec"].get("group")), str(each["spec"]["version"])) for each in facts.ours()}
    for crd in facts.crds:
        if (entries.get(name(crd)) or {}).get("phase") != Phase.ADOPTED:
            continue
        where = f"CustomResourceDefinition {name(crd)}"
        away = [each for each in group_versions(crd) if each not in leads_here]
        if away:
            yield Finding(
                "adopted-elsewhere",
                Severity.ERROR,
                where,
                f"it is adopted, and {listed(f'{group}/{version}' for group, version in away)} does not lead here",
                "clients of that version read and write what kube-apiserver has, which nobody follows",
                f"kubectl delete apiservice {name_of(away[0])}",
            )
        versions = {version["name"] for version in crd["spec"]["versions"]}
        if gone := sorted(set((crd.get("status") or {}).get("storedVersions") or ()) - versions):
            yield Finding(
                "stored-versions",
                Severity.WARNING,
                where,
                f"status.storedVersions has {', '.join(gone)}, which it no longer has",
                "objects that are stored in it can't be read",
                'add the version again, rewrite the objects: docs/adoption.md, "What to know beforehand"',
            )


def _mending(facts: InstallationFacts, reason: str) -> str:
    """The command for a reason why a definition does not move."""
    definition = reason.partition(" ")[0]
    if f"annotation {ADOPTION}" in reason:
        return f"kubectl annotate crd {definition} {ADOPTION}-"
    if "does not match the selector" in reason:
        return f"kubectl label crd {definition} {facts.selector}" if "=" in str(facts.selector) else _adopt(facts, "plan")
    if reason.startswith("APIService "):
        return f"kubectl get apiservice {reason.split()[1]} --show-managed-fields --output yaml"
    return _adopt(facts, "plan", f"--adopt '{facts.selector}'")
