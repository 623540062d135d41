"""The hosting cluster, and the adoption of its definitions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aggserver.options import convert, flag
from aggserver.options.commands import ADOPT, ADOPTING, ASK, DOCTOR, PLAN, SERVE
from aggserver.options.flag import option

__all__ = ["ClusterOptions"]


# ruff: noqa: RUF009  -- option calls dataclasses.field, so its result is a valid default
@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Fields of Options; see the help of each."""

    kubeconfig: Path | None = option(
        None,
        "kubeconfig",
        convert.path,
        flag.CLUSTER,
        "kubeconfig of the cluster (default: the pod's service account; doctor looks for kubectl's first)",
        metavar="FILE",
        commands=SERVE | ADOPT | DOCTOR,
    )
    context: str = option(
        "",
        "context",
        convert.text,
        flag.CLUSTER,
        "context of the kubeconfig (default: the current one)",
        metavar="NAME",
        commands=DOCTOR,
    )
    kube_apiservers: tuple[str, ...] = option(
        (),
        "kube-apiservers",
        convert.api_servers,
        flag.CLUSTER,
        "URLs of all kube-apiservers of the cluster, such as https://host:6443, comma-separated (default: those that the Service "
        "default/kubernetes has)",
        metavar="URLS",
    )
    service_name: str = option(
        "aggserver",
        "service-name",
        convert.text,
        flag.CLUSTER,
        "Service in front of the server, which the APIServices refer to",
        metavar="NAME",
        commands=SERVE | PLAN | DOCTOR,
    )
    service_namespace: str = option(
        "",
        "service-namespace",
        convert.text,
        flag.CLUSTER,
        "namespace of the server's Service (default: the pod's; of doctor: those of all APIServices of aggserver)",
        metavar="NAME",
        commands=SERVE | ADOPT | DOCTOR,
    )
    service_port: int = option(
        443, "service-port", convert.port, flag.CLUSTER, "port of that Service", metavar="PORT", commands=SERVE | PLAN
    )
    service_account: str = option(
        "aggserver",
        "service-account",
        convert.text,
        flag.CLUSTER,
        "the server's service account, in the namespace of its Service",
        metavar="NAME",
        commands=PLAN | DOCTOR,
    )
    definition_names: tuple[str, ...] = option(
        (),
        "name",
        convert.sources,
        flag.ADOPTION,
        "definitions, such as crontabs.stable.example.com; or their plural, singular, kind or short name",
        metavar="NAME",
        commands=ASK,
        positional=True,
        optional=True,
    )
    all_definitions: bool = option(False, "all", convert.boolean, flag.ADOPTION, "all that are adopted", commands=ASK)
    through_api: bool = option(
        False,
        "through-api",
        convert.boolean,
        flag.ADOPTION,
        "give changed objects back through the API, where the cluster's etcd can't be reached: objects that were created "
        "since get new uids",
        commands=frozenset({"adopt release"}),
    )
    discard: bool = option(
        False,
        "discard",
        convert.boolean,
        flag.ADOPTION,
        "where the cluster has the definition by itself, as it was created anew or given back from a backup, delete what the "
        "server still has of it",
        commands=frozenset({"adopt release"}),
    )
    from_backup: Path | None = option(
        None,
        "from-backup",
        convert.path,
        flag.ADOPTION,
        "give back what a file of storage backup has, without a server, which must be gone for good",
        metavar="FILE",
        commands=frozenset({"adopt release"}),
    )
    wait_seconds: float = option(
        600.0, "timeout", convert.seconds, flag.ADOPTION, "how long to follow it", metavar="DURATION", commands=ASK
    )
    adopt: str | None = option(
        None,
        "adopt",
        convert.selector,
        flag.ADOPTION,
        "label selector of the cluster's CustomResourceDefinitions to adopt, with their objects; an empty one adopts all "
        "(default of plan: all; of doctor: that of the Deployment)",
        metavar="SELECTOR",
        commands=SERVE | PLAN | DOCTOR,
    )
    host_etcd_servers: tuple[str, ...] = option(
        (),
        "host-etcd-servers",
        convert.texts,
        flag.ADOPTION,
        "URLs of the members of the cluster's own etcd, comma-separated, so that objects go back to it as they are, and what "
        "stayed there can be removed",
        metavar="URLS",
        commands=ADOPTING | PLAN,
    )
    host_etcd_cafile: Path | None = option(
        None,
        "host-etcd-cafile",
        convert.path,
        flag.ADOPTION,
        "CA bundle to verify that etcd's certificates with (default: the system's)",
        metavar="FILE",
        commands=ADOPTING,
    )
    host_etcd_certfile: Path | None = option(
        None,
        "host-etcd-certfile",
        convert.path,
        flag.ADOPTION,
        "client certificate for that etcd",
        metavar="FILE",
        commands=ADOPTING,
    )
    host_etcd_keyfile: Path | None = option(
        None,
        "host-etcd-keyfile",
        convert.path,
        flag.ADOPTION,
        "private key of --host-etcd-certfile",
        metavar="FILE",
        commands=ADOPTING,
    )
    host_etcd_prefix: str = option(
        "/registry",
        "host-etcd-prefix",
        convert.text,
        flag.ADOPTION,
        "prefix of all keys in that etcd: kube-apiserver's --etcd-prefix",
        metavar="PATH",
        commands=ADOPTING,
    )
