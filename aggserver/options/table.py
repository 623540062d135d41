"""The table of options: each field of `Options` is one, and its metadata says how it is said and what its help is.

Read by `reading.py`, which makes the flag, the variable (`--secure-port`: AGGSERVER_SECURE_PORT) and the key of the file
(`secure-port: 6443`) of it. Flags that kube-apiserver's library has keep its names, syntax and defaults; units are in the names
of the fields.
Source: k8s.io/apiserver pkg/server/options, v0.36.3.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aggserver.options import convert

__all__ = ["COMMANDS", "COMPLETION", "FLAGS", "PREFIX", "STORAGE", "WITH_COMMAND", "Flag", "Options"]

PREFIX = "AGGSERVER_"
COMMANDS = {
    "serve": "serve the definitions of a folder beside a cluster, through its aggregation layer",
    "dev": "serve CustomResourceDefinitions on their own, without a cluster",
    "cel": "check and run an expression of CEL, or the rules of a definition, without a server",
    "completion": "print a script that completes commands and options in a shell",
    "version": "print the version",
    "storage check": "see whether a store is sound, also while a server uses it, and repair one",
    "storage backup": "copy the SQLite store of a folder to a file, also while a server uses it",
    "storage restore": "make a backup the SQLite store of a folder that has none",
    "storage compact": "forget the history of a SQLite store that no server uses, and give the room back",
}
STORAGE = frozenset(command for command in COMMANDS if command.startswith("storage "))
SERVE, DEV, CEL, COMPLETION = frozenset({"serve"}), frozenset({"dev"}), frozenset({"cel"}), frozenset({"completion"})
BOTH = SERVE | DEV
LOG_LEVELS = ("debug", "info", "warning", "error")
CHECKED = BOTH | {"storage check"}
STORAGES = ("sqlite", "etcd")
OUTPUTS = ("text", "json")
SHELLS = ("bash", "zsh", "fish")
TLS_VERSIONS = ("VersionTLS12", "VersionTLS13")

# Defaults of `aggserver dev -- COMMAND`, by field: a server that is there for one command shares no port with others, begins
# empty, and leaves the output to the command.
WITH_COMMAND = {"secure_port": 0, "data": ":memory:", "log_level": "warning"}


@dataclass(frozen=True, slots=True)
class Flag:
    """How an option is said: `dev` is its default under that command, where it differs from the field's.

    One with `positional` is an argument and nothing else, which must be given unless it is `optional`.
    """

    name: str
    convert: convert.Convert
    group: str
    text: str
    metavar: str = ""
    commands: frozenset[str] = SERVE
    dev: Any = None
    short: str = ""
    positional: bool = False
    optional: bool = False

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace("-", "_")


# ruff: noqa: RUF009  -- a field of a dataclass, as `field` itself makes it
def _option(default: Any, name: str, converter: convert.Convert, group: str, text: str, **more: Any) -> Any:
    return field(default=default, metadata={"flag": Flag(name, converter, group, text, **more)})


_SERVING, _STORAGE, _TLS, _CLUSTER = "serving", "storage", "TLS", "the cluster beside"
_AUTHENTICATION, _AUTHORIZATION, _LIMITS, _RULES = "authentication", "authorization", "limits", "rules of definitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was said, or the defaults. Empty texts and None mean: not given. Durations are seconds."""

    command: str
    # What `aggserver dev -- COMMAND` runs; empty to serve until somebody stops it.
    run: tuple[str, ...] = ()

    secure_port: int = _option(
        443, "secure-port", convert.port, _SERVING, "port for HTTPS; 0 takes a free one", metavar="PORT", commands=BOTH, dev=6443
    )
    bind_address: str = _option(
        "0.0.0.0",  # noqa: S104  a server in a pod is reached at the pod's address
        "bind-address",
        convert.address,
        _SERVING,
        "IP address to listen on; :: is all of IPv4 and IPv6",
        metavar="IP",
        commands=BOTH,
        dev="127.0.0.1",
    )
    definitions: Path | None = _option(
        None,
        "definitions",
        convert.path,
        _SERVING,
        "folder of CustomResourceDefinition manifests, followed for changes",
        metavar="DIR",
    )
    filenames: tuple[str, ...] = _option(
        (),
        "filename",
        convert.sources,
        _SERVING,
        "manifests to create at start: a file, a folder, an http(s) URL, or - for the standard input; may be repeated",
        metavar="FILE",
        commands=DEV,
        short="-f",
    )
    kubeconfig_to_write: Path | None = _option(
        None,
        "kubeconfig",
        convert.path,
        _SERVING,
        "file to put the way to this server into as well, as the current context beside those that are there",
        metavar="FILE",
        commands=DEV,
    )
    exit_with_parent: bool = _option(
        False, "exit-with-parent", convert.boolean, _SERVING, "stop when the process that started the server ends", commands=DEV
    )
    data: str = _option(
        "/var/lib/aggserver",
        "data",
        convert.text,
        _STORAGE,
        "folder of the database and of what else is kept, or :memory: for none",
        metavar="DIR",
        commands=BOTH | STORAGE,
        dev=".aggserver",
    )
    sqlite_synchronous: str = _option(
        "full",
        "sqlite-synchronous",
        convert.one_of("full", "normal"),
        _STORAGE,
        "full: a write is on the disk before it is answered; normal: quicker, a power cut may lose the last writes",
        metavar="MODE",
        commands=BOTH,
    )
    sqlite_compaction_interval_seconds: float = _option(
        300.0,
        "sqlite-compaction-interval",
        convert.seconds,
        _STORAGE,
        "history is kept for one to two of these, and never more than 500,000 writes; 0 leaves only that bound",
        metavar="DURATION",
        commands=BOTH,
    )
    repair: bool = _option(
        False,
        "repair",
        convert.boolean,
        _STORAGE,
        "remove what is damaged, and keep a copy of it in the folder of --data; a SQLite store must have no server meanwhile",
        commands=frozenset({"storage check"}),
    )
    file: Path | None = _option(
        None,
        "file",
        convert.path,
        _STORAGE,
        "the backup",
        metavar="FILE",
        commands=frozenset({"storage backup", "storage restore"}),
        positional=True,
    )
    bump_revision: int = _option(
        1_000_000_000,
        "bump-revision",
        convert.positive,
        _STORAGE,
        "how far to raise the revision above the backup's: beyond all that was given since",
        metavar="N",
        commands=frozenset({"storage restore"}),
    )
    shutdown_delay_seconds: float = _option(
        0.0,
        "shutdown-delay-duration",
        convert.seconds,
        _SERVING,
        "time between failing /readyz and refusing connections, for load balancers to notice",
        metavar="DURATION",
    )
    shutdown_grace_seconds: float = _option(
        60.0,
        "shutdown-grace-period",
        convert.seconds,
        _SERVING,
        "time for requests in flight after that",
        metavar="DURATION",
        commands=BOTH,
        dev=5.0,
    )
    log_level: str = _option(
        "info", "log-level", convert.one_of(*LOG_LEVELS), _SERVING, ", ".join(LOG_LEVELS), metavar="LEVEL", commands=BOTH
    )

    storage: str = _option(
        "sqlite",
        "storage",
        convert.one_of(*STORAGES),
        _STORAGE,
        "sqlite: one file in the folder of --data; etcd: for several servers",
        metavar="KIND",
        commands=CHECKED,
    )
    etcd_servers: tuple[str, ...] = _option(
        (),
        "etcd-servers",
        convert.texts,
        _STORAGE,
        "URLs of etcd's members, as https://host:2379",
        metavar="URLS",
        commands=CHECKED,
    )
    etcd_cafile: Path | None = _option(
        None,
        "etcd-cafile",
        convert.path,
        _STORAGE,
        "CAs of etcd's certificates (default: the system's)",
        metavar="FILE",
        commands=CHECKED,
    )
    etcd_certfile: Path | None = _option(
        None, "etcd-certfile", convert.path, _STORAGE, "client certificate for etcd", metavar="FILE", commands=CHECKED
    )
    etcd_keyfile: Path | None = _option(
        None, "etcd-keyfile", convert.path, _STORAGE, "its private key", metavar="FILE", commands=CHECKED
    )
    etcd_prefix: str = _option(
        "/registry", "etcd-prefix", convert.text, _STORAGE, "what all keys in etcd begin with", metavar="PATH", commands=CHECKED
    )
    etcd_compaction_interval_seconds: float = _option(
        300.0,
        "etcd-compaction-interval",
        convert.seconds,
        _STORAGE,
        "how long etcd keeps history, at least; 0 leaves compaction to others",
        metavar="DURATION",
        commands=BOTH,
    )

    tls_cert_file: Path | None = _option(
        None,
        "tls-cert-file",
        convert.path,
        _TLS,
        "serving certificate, followed by its intermediates; without one, a CA and a certificate are made and renewed",
        metavar="FILE",
    )
    tls_private_key_file: Path | None = _option(
        None, "tls-private-key-file", convert.path, _TLS, "private key of --tls-cert-file", metavar="FILE"
    )
    ca_bundle_file: Path | None = _option(
        None,
        "ca-bundle-file",
        convert.path,
        _TLS,
        "CAs by which the aggregator is to know --tls-cert-file (default: that certificate itself)",
        metavar="FILE",
    )
    cert_dir: Path | None = _option(
        None,
        "cert-dir",
        convert.path,
        _TLS,
        "folder for the certificates the server makes (default: a Secret beside the Service)",
        metavar="DIR",
    )
    tls_min_version: str = _option(
        "VersionTLS12",
        "tls-min-version",
        convert.one_of(*TLS_VERSIONS),
        _TLS,
        " or ".join(TLS_VERSIONS),
        metavar="VERSION",
        commands=BOTH,
    )
    tls_cipher_suites: tuple[str, ...] = _option(
        (),
        "tls-cipher-suites",
        convert.texts,
        _TLS,
        "cipher suites for TLS 1.2, by IANA names, comma-separated",
        metavar="NAMES",
        commands=BOTH,
    )

    kubeconfig: Path | None = _option(
        None,
        "kubeconfig",
        convert.path,
        _CLUSTER,
        "how to reach the cluster (default: the pod's service account)",
        metavar="FILE",
    )
    service_name: str = _option(
        "aggserver",
        "service-name",
        convert.text,
        _CLUSTER,
        "Service that leads to this server; APIServices are pointed at it",
        metavar="NAME",
    )
    service_namespace: str = _option(
        "", "service-namespace", convert.text, _CLUSTER, "namespace of that Service (default: the pod's)", metavar="NAME"
    )
    service_port: int = _option(443, "service-port", convert.port, _CLUSTER, "port of that Service", metavar="PORT")

    client_ca_file: Path | None = _option(
        None,
        "client-ca-file",
        convert.path,
        _AUTHENTICATION,
        "CAs of client certificates: CN is the user, O the groups (default: the cluster's)",
        metavar="FILE",
    )
    requestheader_client_ca_file: Path | None = _option(
        None,
        "requestheader-client-ca-file",
        convert.path,
        _AUTHENTICATION,
        "CAs of the proxy whose headers name the user (default: the cluster's)",
        metavar="FILE",
    )
    requestheader_allowed_names: tuple[str, ...] = _option(
        (),
        "requestheader-allowed-names",
        convert.texts,
        _AUTHENTICATION,
        "common names of that proxy; any if empty",
        metavar="NAMES",
    )
    requestheader_username_headers: tuple[str, ...] = _option(
        ("x-remote-user",),
        "requestheader-username-headers",
        convert.texts,
        _AUTHENTICATION,
        "headers with the user name",
        metavar="NAMES",
    )
    requestheader_uid_headers: tuple[str, ...] = _option(
        ("x-remote-uid",), "requestheader-uid-headers", convert.texts, _AUTHENTICATION, "headers with the uid", metavar="NAMES"
    )
    requestheader_group_headers: tuple[str, ...] = _option(
        ("x-remote-group",),
        "requestheader-group-headers",
        convert.texts,
        _AUTHENTICATION,
        "headers with a group each",
        metavar="NAMES",
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = _option(
        ("x-remote-extra-",),
        "requestheader-extra-headers-prefix",
        convert.texts,
        _AUTHENTICATION,
        "prefixes of headers with more about the user",
        metavar="PREFIXES",
    )
    authentication_kubeconfig: Path | None = _option(
        None,
        "authentication-kubeconfig",
        convert.path,
        _AUTHENTICATION,
        "cluster that reviews tokens, and has the ConfigMap extension-apiserver-authentication (default: --kubeconfig)",
        metavar="FILE",
    )
    authentication_skip_lookup: bool = _option(
        False, "authentication-skip-lookup", convert.boolean, _AUTHENTICATION, "use the flags alone, not that ConfigMap"
    )
    authentication_tolerate_lookup_failure: bool = _option(
        False,
        "authentication-tolerate-lookup-failure",
        convert.boolean,
        _AUTHENTICATION,
        "serve although it can't be read: requests may then be anonymous",
    )
    authentication_token_cache_seconds: float = _option(
        10.0,
        "authentication-token-webhook-cache-ttl",
        convert.seconds,
        _AUTHENTICATION,
        "how long a review of a token holds",
        metavar="DURATION",
    )
    anonymous_auth: bool = _option(
        True, "anonymous-auth", convert.boolean, _AUTHENTICATION, "let requests without credentials in, as system:anonymous"
    )

    authorization_kubeconfig: Path | None = _option(
        None,
        "authorization-kubeconfig",
        convert.path,
        _AUTHORIZATION,
        "cluster that reviews access (default: --kubeconfig)",
        metavar="FILE",
    )
    authorization_always_allow_paths: tuple[str, ...] = _option(
        ("/healthz", "/readyz", "/livez"),
        "authorization-always-allow-paths",
        convert.texts,
        _AUTHORIZATION,
        "paths open to everybody; a * may stand at the end",
        metavar="PATHS",
    )
    authorization_allow_cache_seconds: float = _option(
        10.0,
        "authorization-webhook-cache-authorized-ttl",
        convert.seconds,
        _AUTHORIZATION,
        "how long a yes holds",
        metavar="DURATION",
    )
    authorization_deny_cache_seconds: float = _option(
        10.0,
        "authorization-webhook-cache-unauthorized-ttl",
        convert.seconds,
        _AUTHORIZATION,
        "how long a no holds",
        metavar="DURATION",
    )

    protect_definitions: bool = _option(
        False,
        "protect-definitions",
        convert.boolean,
        _LIMITS,
        "refuse to delete a definition that still has objects, unless it is annotated otherwise",
        commands=DEV,
    )
    max_requests_inflight: int = _option(
        400, "max-requests-inflight", convert.integer, _LIMITS, "reads at once; 0 is no limit", metavar="N", commands=BOTH
    )
    max_mutating_requests_inflight: int = _option(
        200,
        "max-mutating-requests-inflight",
        convert.integer,
        _LIMITS,
        "writes at once; 0 is no limit",
        metavar="N",
        commands=BOTH,
    )
    request_timeout_seconds: float = _option(
        60.0,
        "request-timeout",
        convert.seconds,
        _LIMITS,
        "longest time for a request that is no watch",
        metavar="DURATION",
        commands=BOTH,
    )

    max_object_bytes: int = _option(
        3 * 1024 * 1024,
        "max-object-bytes",
        convert.positive,
        _LIMITS,
        "largest object that is stored, as JSON; bodies of requests have 3 MiB at most, whatever this says",
        metavar="BYTES",
        commands=BOTH,
    )

    rules_see_labels: bool = _option(
        False,
        "rules-see-labels",
        convert.boolean,
        _RULES,
        "x-kubernetes-validations see labels and annotations, which kube-apiserver hides from them",
        commands=BOTH | CEL,
    )
    rules_budget: int = _option(
        1,
        "rules-budget",
        convert.positive,
        _RULES,
        "what each limit of their cost is multiplied by; 1 is kube-apiserver's",
        metavar="FACTOR",
        commands=BOTH | CEL,
    )
    expression: str = _option(
        "",
        "expression",
        convert.text,
        _RULES,
        "what to check and run (default: all rules of --definition)",
        metavar="EXPRESSION",
        commands=CEL,
        positional=True,
        optional=True,
    )
    definition_file: Path | None = _option(
        None,
        "definition",
        convert.path,
        _RULES,
        "file with the CustomResourceDefinition; - is the standard input, here and below",
        metavar="FILE",
        commands=CEL,
    )
    definition_version: str = _option(
        "",
        "version",
        convert.text,
        _RULES,
        "version of the definition (default: the object's, or the stored one)",
        metavar="VERSION",
        commands=CEL,
    )
    at: str = _option(
        ".",
        "at",
        convert.text,
        _RULES,
        "where in the schema self stands: .spec.items[] is each item of a list or value of a map",
        metavar="PLACE",
        commands=CEL,
    )
    object_file: Path | None = _option(
        None, "object", convert.path, _RULES, "file with the object that self is, or is a part of", metavar="FILE", commands=CEL
    )
    old_object_file: Path | None = _option(
        None, "old-object", convert.path, _RULES, "file with that object before, for oldSelf", metavar="FILE", commands=CEL
    )
    shell: str = _option(
        "", "shell", convert.one_of(*SHELLS), "", ", ".join(SHELLS), metavar="SHELL", commands=COMPLETION, positional=True
    )
    output: str = _option(
        "text", "output", convert.one_of(*OUTPUTS), _RULES, ", ".join(OUTPUTS), metavar="FORMAT", commands=CEL, short="-o"
    )


FLAGS: dict[str, Flag] = {field.name: field.metadata["flag"] for field in dataclasses.fields(Options) if "flag" in field.metadata}
"""By the field of Options."""
