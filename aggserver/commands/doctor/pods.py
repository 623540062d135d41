"""Whether the server runs: the Deployment behind the Service, its arguments, its pods and what ended them. Pure.

Source: reasons of waiting containers are the kubelet's, k8s.io/kubernetes pkg/kubelet/images/types.go,
pkg/kubelet/container/sync_result.go; conditions are those of k8s.io/api core/v1 and apps/v1, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aggserver.commands.doctor.finding import Finding, Severity, listed
from aggserver.commands.doctor.found import InstallationFacts, condition, name, selects
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.times import parse_time

__all__ = ["checks"]

_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"})
_CONFIGURATION = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})

# What a shell shows of a process that SIGKILL has ended, and what the server ends with when an option is wrong.
_KILLED, _WRONG_OPTION = 137, 2

# Restarts within an hour are worth a word from this number on, also if the server runs now.
_MANY_RESTARTS = 3
_RECENT_SECONDS = 3600.0

# A pod that was asked to end has terminationGracePeriodSeconds: 45 s in deployment.yaml.
_LONG_TO_END_SECONDS = 300.0

_MOST_LINES = 5


def checks(facts: InstallationFacts) -> Iterator[Finding]:
    yield from _arguments(facts)
    if not facts.has_pods:
        return
    if facts.knows("account") and not facts.has_account:
        yield Finding(
            "service-account",
            Severity.ERROR,
            f"ServiceAccount {facts.service.namespace}/{facts.account}",
            "it does not exist",
            "no pod that names it is created, and the server's rights are this account's",
            facts.applied("service-account.yaml"),
        )
    if facts.knows("deployment"):
        yield from _deployment(facts)
    if facts.knows("pods"):
        for pod in facts.pods:
            yield from _pod(facts, pod)
        yield from _images(facts)


def _logs(facts: InstallationFacts, pod: JSONMapping, *, previous: bool = False) -> str:
    before = " --previous" if previous else ""
    return f"kubectl logs {name(pod)} --namespace {facts.service.namespace}{before} --tail 50"


# --- the Deployment ---


def _arguments(facts: InstallationFacts) -> Iterator[Finding]:
    if facts.deployment is None:
        return
    where = f"Deployment {facts.service.namespace}/{name(facts.deployment)}"
    edit = f"kubectl edit deployment {name(facts.deployment)} --namespace {facts.service.namespace}"
    if facts.options_problem:
        why = "the server ends with this line at its start"
        if "unrecognized arguments" in facts.options_problem:
            why += ", unless its image is of another version than this command"
        yield Finding("arguments", Severity.ERROR, where, facts.options_problem, why, edit)
        return
    if facts.options is None:
        return
    named = facts.options.service_namespace or facts.service.namespace, facts.options.service_name
    if facts.has_pods and named != (facts.service.namespace, facts.service.name):
        yield Finding(
            "arguments-service",
            Severity.ERROR,
            where,
            f"the server leads clients to the Service {'/'.join(named)}, and the one in front of it is {facts.where}",
            "--service-name and --service-namespace name the Service that APIServices get",
            edit,
        )


def _deployment(facts: InstallationFacts) -> Iterator[Finding]:
    found, namespace = facts.deployment, facts.service.namespace
    if found is None:
        if not facts.pods:
            yield Finding(
                "deployment",
                Severity.ERROR,
                f"Service {facts.where}",
                "no Deployment and no pod has the labels of its selector",
                "so no server runs",
                facts.applied("deployment.yaml"),
            )
        return
    where = f"Deployment {namespace}/{name(found)}"
    replicas = found["spec"].get("replicas", 1)
    if not replicas:
        yield Finding(
            "deployment-scaled",
            Severity.ERROR,
            where,
            "it is scaled to 0",
            "so no server runs",
            f"kubectl scale deployment {name(found)} --namespace {namespace} --replicas 1",
        )
        return
    failure = condition(found, "ReplicaFailure")
    if failure is not None and failure["status"] == "True":
        yield Finding(
            "deployment-pods",
            Severity.ERROR,
            where,
            f"its pods can't be created: {failure.get('message')}",
            "a quota, an admission policy or pod security refuses them",
            f"kubectl describe replicasets --namespace {namespace}",
        )
    elif not facts.pods and facts.knows("pods"):
        yield Finding(
            "deployment-pods",
            Severity.ERROR,
            where,
            "it has no pod",
            "kube-controller-manager makes its ReplicaSet and pods; it may be away, or may have no right or room",
            f"kubectl describe deployment {name(found)} --namespace {namespace}",
        )


# --- pods ---


def _pod(facts: InstallationFacts, pod: JSONMapping) -> Iterator[Finding]:
    if "deletionTimestamp" in pod["metadata"]:
        yield from _ending(facts, pod)
        return
    scheduled = condition(pod, "PodScheduled")
    if scheduled is not None and scheduled["status"] == "False":
        why = "no node takes it"
        mend = f"kubectl describe pod {name(pod)} --namespace {facts.service.namespace}"
        message = str(scheduled.get("message") or scheduled.get("reason"))
        if "PersistentVolumeClaim" in message or "volume" in message:
            why = "its volume is not there, or is on another node: the cluster needs a default storage class"
            mend = f"kubectl describe pvc --namespace {facts.service.namespace}"
        yield Finding("pod-pending", Severity.ERROR, _where(pod), f"it is not scheduled: {message}", why, mend)
        return
    found = list(_containers(facts, pod))
    yield from found
    if found:
        return
    mounts = _mount_trouble(facts, pod)
    ready = condition(pod, "Ready")
    if mounts:
        why = "the kubelet can't prepare its volumes"
        mend = f"kubectl describe pod {name(pod)} --namespace {facts.service.namespace}"
        yield Finding("pod-volumes", Severity.ERROR, _where(pod), mounts, why, mend)
    elif (ready or {}).get("status") != "True":
        lines = _last_lines(facts, pod)
        said = (ready or {}).get("message") or (ready or {}).get("reason") or "its containers have not started"
        yield Finding(
            "pod-not-ready",
            Severity.ERROR,
            _where(pod),
            f"it is not ready: {said}",
            f"its last log lines: {lines}" if lines else "it has logged nothing yet",
            _logs(facts, pod),
        )


def _where(pod: JSONMapping) -> str:
    return f"Pod {pod['metadata'].get('namespace', '')}/{name(pod)}"


def _ending(facts: InstallationFacts, pod: JSONMapping) -> Iterator[Finding]:
    # The deadline, which is the time of the request and the grace period.
    late = facts.now - parse_time(str(pod["metadata"]["deletionTimestamp"]))
    if late > _LONG_TO_END_SECONDS:
        yield Finding(
            "pod-terminating",
            Severity.WARNING,
            _where(pod),
            f"it should have ended {late:.0f} s ago",
            "its node may be gone; a Deployment of type Recreate waits for it, and its volume is not free",
            f"kubectl delete pod {name(pod)} --namespace {facts.service.namespace} --force",
        )


def _containers(facts: InstallationFacts, pod: JSONMapping) -> Iterator[Finding]:
    status = pod.get("status") or {}
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (each.get("state") or {}).get("waiting") or {}
        ended = (each.get("lastState") or {}).get("terminated") or (each.get("state") or {}).get("terminated")
        reason = str(waiting.get("reason") or "")
        describe = f"kubectl describe pod {name(pod)} --namespace {facts.service.namespace}"
        if reason in _IMAGE:
            yield Finding(
                "pod-image",
                Severity.ERROR,
                _where(pod),
                f"its image {each.get('image')} can't be pulled ({reason}): {waiting.get('message') or 'no message'}",
                "the name is wrong, the registry can't be reached from the node, or wants credentials",
                f"kubectl set image deployment --namespace {facts.service.namespace} --selector app.kubernetes.io/name=aggserver "
                f"{each['name']}=REGISTRY/aggserver:VERSION",
            )
        elif reason in _CONFIGURATION:
            why = "a Secret or ConfigMap that it names does not exist, or its command can't be run"
            what = f"its container can't start ({reason}): {waiting.get('message') or 'no message'}"
            yield Finding("pod-configuration", Severity.ERROR, _where(pod), what, why, describe)
        elif reason == "CrashLoopBackOff":
            yield _ended(facts, pod, "it ends again and again", ended, Severity.ERROR)
        elif ended is not None and int(each.get("restartCount") or 0) >= _MANY_RESTARTS and _is_recent(facts, ended):
            what = f"it was restarted {each['restartCount']} times, last at {ended.get('finishedAt')}"
            yield _ended(facts, pod, what, ended, Severity.WARNING)


def _is_recent(facts: InstallationFacts, ended: JSONMapping) -> bool:
    at = ended.get("finishedAt")
    return bool(at) and facts.now - parse_time(str(at)) < _RECENT_SECONDS


def _ended(facts: InstallationFacts, pod: JSONMapping, what: str, ended: JSONMapping | None, severity: Severity) -> Finding:
    """Why a container has ended, by its state and its last lines."""
    code, reason = (ended or {}).get("exitCode"), (ended or {}).get("reason")
    lines = _last_lines(facts, pod)
    said = f"; its last log lines: {lines}" if lines else ""
    namespace = facts.service.namespace
    if reason == "OOMKilled":
        mend = (
            f"kubectl set resources deployment --namespace {namespace} --selector app.kubernetes.io/name=aggserver "
            "--limits memory=2Gi --requests memory=512Mi"
        )
        return Finding("pod-memory", severity, _where(pod), f"{what}: out of memory", "all objects are in memory", mend)
    if code == _WRONG_OPTION:
        why = f"an option is wrong{said}"
    elif code == _KILLED:
        why = f"it was killed: its liveness probe failed, or its node has no memory left{said}"
    else:
        why = f"{(ended or {}).get('message') or reason or 'no reason is known'}{said}"
    shown = f"{what}: exit status {code}" if code is not None else what
    return Finding("pod-restarts", severity, _where(pod), shown, why, _logs(facts, pod, previous=True))


def _last_lines(facts: InstallationFacts, pod: JSONMapping) -> str:
    return " | ".join(facts.logs.get(name(pod), ())[-_MOST_LINES:])


def _mount_trouble(facts: InstallationFacts, pod: JSONMapping) -> str:
    """What the kubelet says of its volumes, while no container has started."""
    status = pod.get("status") or {}
    if any((each.get("state") or {}).get("running") for each in status.get("containerStatuses") or ()):
        return ""
    said: Sequence[JSONMapping] = [
        each
        for each in facts.events
        if (each.get("involvedObject") or {}).get("name") == name(pod)
        and each.get("reason") in ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
    ]
    return str(said[-1].get("message")) if said else ""


def _images(facts: InstallationFacts) -> Iterator[Finding]:
    """Replicas of several versions, outside of a rollout."""
    found, status = facts.deployment, (facts.deployment or {}).get("status") or {}
    if found is None or status.get("updatedReplicas", 0) < found["spec"].get("replicas", 1):
        return
    images = {
        str(each["image"])
        for pod in facts.pods
        if "deletionTimestamp" not in pod["metadata"]
        and selects(found["spec"]["selector"].get("matchLabels") or {}, pod["metadata"].get("labels") or {})
        for each in pod["spec"]["containers"]
    }
    wanted = {str(each["image"]) for each in found["spec"]["template"]["spec"]["containers"]}
    if others := sorted(images - wanted):
        yield Finding(
            "pod-versions",
            Severity.WARNING,
            f"Deployment {facts.service.namespace}/{name(found)}",
            f"pods behind the Service have other images than it names: {listed(others)}",
            "servers of several versions answer in turn, and a request may get either",
            f"kubectl rollout restart deployment/{name(found)} --namespace {facts.service.namespace}",
        )
