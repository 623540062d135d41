"""The built-in kinds and the controllers of `aggserver dev`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aggserver.options import convert, flag
from aggserver.options.commands import DEV
from aggserver.options.flag import option

__all__ = ["CONTROLLERS", "ControllerOptions", "is_controller_enabled"]

KINDS = ("all", "none")

PODS = ("keep", "pending", "run")

# The controllers of `aggserver dev`, and the older names that kube-controller-manager still accepts for them.
CONTROLLERS = {
    "garbage-collector-controller": "garbagecollector",
    "namespace-controller": "namespace",
    "serviceaccount-controller": "serviceaccount",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "serviceaccount-token-controller": "serviceaccount-token",
    "certificatesigningrequest-signing-controller": "csrsigning",
    "persistentvolumeclaim-protection-controller": "pvc-protection",
    "persistentvolume-protection-controller": "pv-protection",
    "volumeattributesclass-protection-controller": "vac-protection",
    "clusterrole-aggregation-controller": "clusterrole-aggregation",
    "endpoints-controller": "endpoint",
    "endpointslice-controller": "endpointslice",
    "endpointslice-mirroring-controller": "endpointslicemirroring",
    "cronjob-controller": "cronjob",
    "ttl-after-finished-controller": "ttl-after-finished",
    "disruption-controller": "disruption",
    "persistentvolume-binder-controller": "persistentvolume-binder",
    "resourcequota-controller": "resourcequota",
}


@dataclass(frozen=True, kw_only=True)
class ControllerOptions:
    """Fields of Options; see the help of each."""

    controllers: tuple[str, ...] = option(
        ("*",),
        "controllers",
        convert.texts,
        flag.CONTROLLERS,
        f"controllers to run, comma-separated: * for all, NAME for one, -NAME for all but one; all are {', '.join(CONTROLLERS)}",
        metavar="NAMES",
        commands=DEV,
    )
    pods: str = option(
        "keep",
        "pods",
        convert.one_of(*PODS),
        flag.CONTROLLERS,
        "keep: Pods stay as clients make them; pending: workloads get their Pods, which stay Pending; run: workloads get their "
        "Pods, all Pods are Running at once, and those of Jobs succeed",
        metavar="keep|pending|run",
        commands=DEV,
    )
    job_seconds: float = option(
        0.0,
        "job-duration",
        convert.seconds,
        flag.CONTROLLERS,
        "with --pods=run: how long the Pods of Jobs run before they succeed",
        metavar="DURATION",
        commands=DEV,
    )
    kinds: str = option(
        "all",
        "kinds",
        convert.one_of(*KINDS),
        flag.CONTROLLERS,
        "built-in kinds to serve, such as Pods, Secrets and Deployments: all or none; namespaces are always served",
        metavar="all|none",
        commands=DEV,
    )
    service_cluster_ip_range: str = option(
        "10.0.0.0/24",
        "service-cluster-ip-range",
        convert.ipv4_network,
        flag.CONTROLLERS,
        "range of IPv4 addresses for Services",
        metavar="CIDR",
        commands=DEV,
    )


def is_controller_enabled(name: str, wanted: Sequence[str]) -> bool:
    """Whether a controller runs. wanted: the entries of `--controllers`; the first one that names the controller decides, or `*`
    if none does.

    Source: k8s.io/controller-manager app/helper.go (IsControllerEnabled), v0.36.3.
    """
    names = (name, CONTROLLERS[name])
    for entry in wanted:
        if entry.removeprefix("-") in names:
            return not entry.startswith("-")
    return "*" in wanted
