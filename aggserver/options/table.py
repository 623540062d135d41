"""The table of options: each field of `Options` is one option, and its metadata holds the flag's name, type, default and help.

`reading.py` derives three forms from it: the flag (`--secure-port`), the environment variable (AGGSERVER_SECURE_PORT) and the key
of the configuration file (`secure-port: 6443`). Flags that k8s.io/apiserver also has keep its names, syntax and defaults. Fields
have their unit in the name.
Source: k8s.io/apiserver pkg/server/options, v0.36.3.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aggserver.options import convert

__all__ = [
    "ADMISSION_PLUGINS",
    "ADOPT",
    "AUTHORIZATION_MODES",
    "COMMANDS",
    "COMPLETION",
    "CONTROLLERS",
    "FLAGS",
    "PREFIX",
    "STORAGE",
    "WITH_COMMAND",
    "Flag",
    "Options",
]

PREFIX = "AGGSERVER_"
COMMANDS = {
    "serve": "serve CustomResourceDefinitions from a folder through a cluster's aggregation layer",
    "dev": "serve CustomResourceDefinitions without a cluster, for development",
    "dev user": "make a client certificate and a kubeconfig for a user of a server without a cluster",
    "cel": "check and evaluate a CEL expression, or the rules of a CustomResourceDefinition, without a server",
    "convert": "convert objects between the versions of a CustomResourceDefinition, without a server, or check its rules",
    "new": "write a project of three files: resources in Python, their test, a Dockerfile",
    "manifests": "print what a cluster needs to run resources that are written in Python",
    "schema": "print the schema that a Python class has as a resource, without a server",
    "envtest": "write programs that take the place of envtest's kube-apiserver, etcd and kubectl",
    "completion": "print a shell completion script",
    "version": "print the version",
    "adopt plan": "say what the adoption of a cluster's definitions would do, and what stands in its way",
    "adopt status": "show which definitions are adopted, and how far moves are",
    "adopt release": "give definitions and their objects back to the cluster, and follow it",
    "adopt cleanup": "remove what adopted definitions left in the cluster's etcd, and follow it",
    "storage check": "check a store for damage, also while a server uses it, and repair it on request",
    "storage backup": "back up a SQLite store to a file, also while a server uses it",
    "storage restore": "restore a backup into a data folder that has no store",
    "storage migrate": "rewrite all stored objects in the storage versions of their definitions, while no server uses the store",
    "storage compact": "delete the history of a SQLite store that no server uses, and shrink its file",
}
STORAGE = frozenset(command for command in COMMANDS if command.startswith("storage "))
DEV_USER = frozenset({"dev user"})
SERVE, DEV, CEL, COMPLETION = frozenset({"serve"}), frozenset({"dev"}), frozenset({"cel"}), frozenset({"completion"})
CONVERT, ENVTEST, SCHEMA = frozenset({"convert"}), frozenset({"envtest"}), frozenset({"schema"})
NEW, MANIFESTS = frozenset({"new"}), frozenset({"manifests"})
BOTH = SERVE | DEV
# Commands that read and write the cluster's own etcd.
ADOPTING = SERVE | {"adopt release"}
ADOPT = frozenset(command for command in COMMANDS if command.startswith("adopt "))
PLAN, ASK = frozenset({"adopt plan"}), frozenset({"adopt release", "adopt cleanup"})
LOG_LEVELS = ("debug", "info", "warning", "error")
CHECKED = BOTH | {"storage check", "storage migrate"}
STORAGES = ("sqlite", "etcd")
OUTPUTS = ("text", "json")
SHELLS = ("bash", "zsh", "fish")
KINDS = ("all", "none")
PODS = ("keep", "pending", "run")
TLS_VERSIONS = ("VersionTLS12", "VersionTLS13")

# Upstream's authorization modes, without ABAC and Webhook.
AUTHORIZATION_MODES = ("AlwaysAllow", "AlwaysDeny", "Node", "RBAC")

# Admission plugins in the order in which they are asked, and whether they are enabled by default. Those of built-in kinds have an
# effect with `aggserver dev` only.
ADMISSION_PLUGINS = {
    "NamespaceLifecycle": True,
    "LimitRanger": True,
    "ServiceAccount": True,
    "TaintNodesByCondition": True,
    "PodSecurity": True,
    "Priority": True,
    "DefaultTolerationSeconds": True,
    "DefaultStorageClass": True,
    "StorageObjectInUseProtection": True,
    "OwnerReferencesPermissionEnforcement": False,
    "PersistentVolumeClaimResize": True,
    "RuntimeClass": True,
    "CertificateApproval": True,
    "CertificateSigning": True,
    "CertificateSubjectRestriction": True,
    "DefaultIngressClass": True,
    "PodTopologyLabels": True,
    "MutatingAdmissionPolicy": True,
    "MutatingAdmissionWebhook": True,
    "ValidatingAdmissionPolicy": True,
    "ValidatingAdmissionWebhook": True,
    "ResourceQuota": True,
}

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

# Defaults of `aggserver dev -- COMMAND`, by field. Such a server runs for one command only: it takes a free port so as not to
# collide with another, starts empty, and logs little so that the command's output stays readable.
WITH_COMMAND = {"secure_port": 0, "data": ":memory:", "log_level": "warning"}


@dataclass(frozen=True, slots=True)
class Flag:
    """One option as the user sees it.

    `commands` are the commands that accept it. `dev` is the default under `aggserver dev`; None if that is the field's default.
    A `positional` option is an argument without a flag, variable or key; it is required unless it is `optional`.
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


# ruff: noqa: RUF009  -- _option calls dataclasses.field, so its result is a valid default
def _option(default: Any, name: str, converter: convert.Convert, group: str, text: str, **more: Any) -> Any:
    return field(default=default, metadata={"flag": Flag(name, converter, group, text, **more)})


_SERVING, _STORAGE, _TLS, _CLUSTER = "serving", "storage", "TLS", "cluster"
_AUTHENTICATION, _AUTHORIZATION, _LIMITS = "authentication", "authorization", "limits"
_RULES, _CONVERSION = "validation rules", "conversion"
_ADOPTION = "adoption"
_ADMISSION, _CONTROLLERS = "admission", "controllers"
_DEFAULT_PLUGINS = ", ".join(name for name, enabled in ADMISSION_PLUGINS.items() if enabled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The value of every option, or its default. An empty string or None means that it is not set. Durations are in seconds."""

    command: str
    # The command of `aggserver dev -- COMMAND`; empty to serve until stopped.
    run: tuple[str, ...] = ()

    secure_port: int = _option(
        443, "secure-port", convert.port, _SERVING, "port for HTTPS; 0 picks a free port", metavar="PORT", commands=BOTH, dev=6443
    )
    bind_address: str = _option(
        "0.0.0.0",  # noqa: S104  in a pod, clients connect to the pod's address
        "bind-address",
        convert.address,
        _SERVING,
        "IP address to listen on; :: listens on all IPv4 and IPv6 addresses",
        metavar="IP",
        commands=BOTH,
        dev="127.0.0.1",
    )
    definitions: Path | None = _option(
        None,
        "definitions",
        convert.path,
        _SERVING,
        "folder of CustomResourceDefinition manifests; changes in it are applied while the server runs",
        metavar="DIR",
        commands=SERVE | {"storage migrate"},
    )
    filenames: tuple[str, ...] = _option(
        (),
        "filename",
        convert.sources,
        _SERVING,
        "manifests to create at start: a file, a folder, an http(s) URL, or - for standard input; may be repeated",
        metavar="FILE",
        commands=DEV,
        short="-f",
    )
    apps: tuple[str, ...] = _option(
        (),
        "app",
        convert.texts,
        _SERVING,
        "resources that are written in Python: MODULE:NAME of an App; may be repeated",
        metavar="MODULE:NAME",
        commands=BOTH | MANIFESTS,
    )
    image: str = _option(
        "",
        "image",
        convert.text,
        _SERVING,
        "image that has the App, such as registry/name:1",
        metavar="IMAGE",
        commands=MANIFESTS,
    )
    namespace: str = _option(
        "",
        "namespace",
        convert.text,
        _SERVING,
        "namespace that the server runs in (default: the name of the first module, with -system)",
        metavar="NAMESPACE",
        commands=MANIFESTS,
    )
    reload: bool = _option(
        False,
        "reload",
        convert.boolean,
        _SERVING,
        "start a new process after each change of the files of --app; while they have errors, the old one goes on",
        commands=DEV,
    )
    web_port: int | None = _option(
        None,
        "web-port",
        convert.port,
        _SERVING,
        "port for the web applications that an App mounts, with plain HTTP; 0 picks a free port",
        metavar="PORT",
        commands=BOTH,
    )
    kubeconfig_to_write: Path | None = _option(
        None,
        "kubeconfig",
        convert.path,
        _SERVING,
        "kubeconfig file to add a context for this server to, as the current context; other contexts in it are kept",
        metavar="FILE",
        commands=DEV | DEV_USER,
    )
    resolve_services: convert.Services = _option(
        (),
        "resolve-service",
        convert.services,
        _SERVING,
        "address of a service that webhooks name; may be repeated; serve finds the services of its cluster without it",
        metavar="NAMESPACE/NAME=HOST:PORT",
        commands=BOTH | {"storage migrate"},
    )
    exit_with_parent: bool = _option(
        False, "exit-with-parent", convert.boolean, _SERVING, "stop when the parent process exits", commands=DEV
    )
    data: str = _option(
        "/var/lib/aggserver",
        "data",
        convert.text,
        _STORAGE,
        "folder of the database and of other kept files; :memory: keeps nothing on disk",
        metavar="DIR",
        commands=BOTH | STORAGE | DEV_USER,
        dev=".aggserver",
    )
    sqlite_synchronous: str = _option(
        "full",
        "sqlite-synchronous",
        convert.one_of("full", "normal", "off"),
        _STORAGE,
        "full: a write is on disk before it is answered; normal: faster, but a power failure may lose the last ones; off: or all",
        metavar="MODE",
        commands=BOTH,
    )
    sqlite_compaction_interval_seconds: float = _option(
        300.0,
        "sqlite-compaction-interval",
        convert.seconds,
        _STORAGE,
        "compaction interval: history is kept for one to two intervals, and for 500,000 writes at most; 0 leaves only that limit",
        metavar="DURATION",
        commands=BOTH,
    )
    migrate_storage: bool = _option(
        True,
        "migrate-storage",
        convert.boolean,
        _STORAGE,
        "rewrite stored objects in the background after a change of their storage version, then trim status.storedVersions",
        commands=BOTH,
    )
    repair: bool = _option(
        False,
        "repair",
        convert.boolean,
        _STORAGE,
        "remove damaged entries, after copying them to the --data folder; no server may use a SQLite store meanwhile",
        commands=frozenset({"storage check"}),
    )
    file: Path | None = _option(
        None,
        "file",
        convert.path,
        _STORAGE,
        "the backup file",
        metavar="FILE",
        commands=frozenset({"storage backup", "storage restore"}),
        positional=True,
    )
    bump_revision: int = _option(
        1_000_000_000,
        "bump-revision",
        convert.positive,
        _STORAGE,
        "how much to add to the backup's revision, so that resourceVersions are higher than any handed out since the backup",
        metavar="N",
        commands=frozenset({"storage restore"}),
    )
    shutdown_delay_seconds: float = _option(
        0.0,
        "shutdown-delay-duration",
        convert.seconds,
        _SERVING,
        "time between failing /readyz and refusing connections, so that load balancers notice",
        metavar="DURATION",
    )
    shutdown_grace_seconds: float = _option(
        60.0,
        "shutdown-grace-period",
        convert.seconds,
        _SERVING,
        "time that requests in flight get to finish before the server exits",
        metavar="DURATION",
        commands=BOTH,
        dev=5.0,
    )
    log_level: str = _option(
        "info",
        "log-level",
        convert.one_of(*LOG_LEVELS),
        _SERVING,
        f"lowest level that is logged: {', '.join(LOG_LEVELS)}",
        metavar="LEVEL",
        commands=BOTH,
    )

    storage: str = _option(
        "sqlite",
        "storage",
        convert.one_of(*STORAGES),
        _STORAGE,
        "where objects are stored. sqlite: a file in the --data folder; etcd: a cluster that several servers can share",
        metavar="KIND",
        commands=CHECKED,
    )
    etcd_servers: tuple[str, ...] = _option(
        (),
        "etcd-servers",
        convert.texts,
        _STORAGE,
        "URLs of the etcd members, such as https://host:2379, comma-separated",
        metavar="URLS",
        commands=CHECKED,
    )
    etcd_cafile: Path | None = _option(
        None,
        "etcd-cafile",
        convert.path,
        _STORAGE,
        "CA bundle to verify etcd's certificates with (default: the system's)",
        metavar="FILE",
        commands=CHECKED,
    )
    etcd_certfile: Path | None = _option(
        None, "etcd-certfile", convert.path, _STORAGE, "client certificate for etcd", metavar="FILE", commands=CHECKED
    )
    etcd_keyfile: Path | None = _option(
        None, "etcd-keyfile", convert.path, _STORAGE, "private key of --etcd-certfile", metavar="FILE", commands=CHECKED
    )
    etcd_prefix: str = _option(
        "/registry", "etcd-prefix", convert.text, _STORAGE, "prefix of all keys in etcd", metavar="PATH", commands=CHECKED
    )
    etcd_compaction_interval_seconds: float = _option(
        300.0,
        "etcd-compaction-interval",
        convert.seconds,
        _STORAGE,
        "interval of compaction requests to etcd, and how long history is kept at least; 0 sends none",
        metavar="DURATION",
        commands=BOTH,
    )

    tls_cert_file: Path | None = _option(
        None,
        "tls-cert-file",
        convert.path,
        _TLS,
        "serving certificate, followed by its intermediates (default: a CA and a certificate are generated and renewed)",
        metavar="FILE",
        commands=BOTH,
    )
    tls_private_key_file: Path | None = _option(
        None, "tls-private-key-file", convert.path, _TLS, "private key of --tls-cert-file", metavar="FILE", commands=BOTH
    )
    ca_bundle_file: Path | None = _option(
        None,
        "ca-bundle-file",
        convert.path,
        _TLS,
        "CA bundle for clients to verify --tls-cert-file with (default: that certificate itself), in the APIServices or, by "
        "dev, in the kubeconfig",
        metavar="FILE",
        commands=BOTH,
    )
    cert_dir: Path | None = _option(
        None,
        "cert-dir",
        convert.path,
        _TLS,
        "folder for generated certificates (default: a Secret in the Service's namespace)",
        metavar="DIR",
    )
    tls_min_version: str = _option(
        "VersionTLS12",
        "tls-min-version",
        convert.one_of(*TLS_VERSIONS),
        _TLS,
        f"minimum TLS version: {' or '.join(TLS_VERSIONS)}",
        metavar="VERSION",
        commands=BOTH,
    )
    tls_cipher_suites: tuple[str, ...] = _option(
        (),
        "tls-cipher-suites",
        convert.texts,
        _TLS,
        "IANA names of the TLS 1.2 cipher suites to allow, comma-separated",
        metavar="NAMES",
        commands=BOTH,
    )

    kubeconfig: Path | None = _option(
        None,
        "kubeconfig",
        convert.path,
        _CLUSTER,
        "kubeconfig of the cluster (default: the pod's service account)",
        metavar="FILE",
        commands=SERVE | ADOPT,
    )
    kube_apiservers: tuple[str, ...] = _option(
        (),
        "kube-apiservers",
        convert.texts,
        _CLUSTER,
        "URLs of all kube-apiservers of the cluster, such as https://host:6443, comma-separated (default: those that the Service "
        "default/kubernetes has)",
        metavar="URLS",
    )
    service_name: str = _option(
        "aggserver",
        "service-name",
        convert.text,
        _CLUSTER,
        "Service in front of the server, which the APIServices refer to",
        metavar="NAME",
        commands=SERVE | PLAN,
    )
    service_namespace: str = _option(
        "",
        "service-namespace",
        convert.text,
        _CLUSTER,
        "namespace of the server's Service (default: the pod's)",
        metavar="NAME",
        commands=SERVE | ADOPT,
    )
    service_port: int = _option(
        443, "service-port", convert.port, _CLUSTER, "port of that Service", metavar="PORT", commands=SERVE | PLAN
    )
    service_account: str = _option(
        "aggserver",
        "service-account",
        convert.text,
        _CLUSTER,
        "the server's service account, in the namespace of its Service",
        metavar="NAME",
        commands=PLAN,
    )

    definition_names: tuple[str, ...] = _option(
        (),
        "name",
        convert.sources,
        _ADOPTION,
        "definitions, such as crontabs.stable.example.com; or their plural, singular, kind or short name",
        metavar="NAME",
        commands=ASK,
        positional=True,
        optional=True,
    )
    all_definitions: bool = _option(False, "all", convert.boolean, _ADOPTION, "all that are adopted", commands=ASK)
    through_api: bool = _option(
        False,
        "through-api",
        convert.boolean,
        _ADOPTION,
        "give changed objects back through the API, where the cluster's etcd can't be reached: objects that were created "
        "since get new uids",
        commands=frozenset({"adopt release"}),
    )
    discard: bool = _option(
        False,
        "discard",
        convert.boolean,
        _ADOPTION,
        "where the cluster has the definition by itself, as it was created anew or given back from a backup, delete what the "
        "server still has of it",
        commands=frozenset({"adopt release"}),
    )
    from_backup: Path | None = _option(
        None,
        "from-backup",
        convert.path,
        _ADOPTION,
        "give back what a file of storage backup has, without a server, which must be gone for good",
        metavar="FILE",
        commands=frozenset({"adopt release"}),
    )
    wait_seconds: float = _option(
        600.0, "timeout", convert.seconds, _ADOPTION, "how long to follow it", metavar="DURATION", commands=ASK
    )

    adopt: str | None = _option(
        None,
        "adopt",
        convert.selector,
        _ADOPTION,
        "label selector of the cluster's CustomResourceDefinitions to adopt, with their objects; an empty one adopts all "
        "(default of plan: all)",
        metavar="SELECTOR",
        commands=SERVE | PLAN,
    )
    host_etcd_servers: tuple[str, ...] = _option(
        (),
        "host-etcd-servers",
        convert.texts,
        _ADOPTION,
        "URLs of the members of the cluster's own etcd, comma-separated, so that objects go back to it as they are, and what "
        "stayed there can be removed",
        metavar="URLS",
        commands=ADOPTING | PLAN,
    )
    host_etcd_cafile: Path | None = _option(
        None,
        "host-etcd-cafile",
        convert.path,
        _ADOPTION,
        "CA bundle to verify that etcd's certificates with (default: the system's)",
        metavar="FILE",
        commands=ADOPTING,
    )
    host_etcd_certfile: Path | None = _option(
        None,
        "host-etcd-certfile",
        convert.path,
        _ADOPTION,
        "client certificate for that etcd",
        metavar="FILE",
        commands=ADOPTING,
    )
    host_etcd_keyfile: Path | None = _option(
        None,
        "host-etcd-keyfile",
        convert.path,
        _ADOPTION,
        "private key of --host-etcd-certfile",
        metavar="FILE",
        commands=ADOPTING,
    )
    host_etcd_prefix: str = _option(
        "/registry",
        "host-etcd-prefix",
        convert.text,
        _ADOPTION,
        "prefix of all keys in that etcd: kube-apiserver's --etcd-prefix",
        metavar="PATH",
        commands=ADOPTING,
    )

    client_ca_file: Path | None = _option(
        None,
        "client-ca-file",
        convert.path,
        _AUTHENTICATION,
        "CA bundle to verify client certificates with; the user is the CN, the groups are the Os (default: the cluster's; dev "
        "trusts its own CA besides)",
        metavar="FILE",
        commands=BOTH,
    )
    requestheader_client_ca_file: Path | None = _option(
        None,
        "requestheader-client-ca-file",
        convert.path,
        _AUTHENTICATION,
        "CA bundle to verify the front proxy's client certificate with, before its headers are trusted (default: the cluster's)",
        metavar="FILE",
    )
    requestheader_allowed_names: tuple[str, ...] = _option(
        (),
        "requestheader-allowed-names",
        convert.texts,
        _AUTHENTICATION,
        "common names allowed in the front proxy's client certificate; any if empty",
        metavar="NAMES",
    )
    requestheader_username_headers: tuple[str, ...] = _option(
        ("x-remote-user",),
        "requestheader-username-headers",
        convert.texts,
        _AUTHENTICATION,
        "request headers to take the user name from",
        metavar="NAMES",
    )
    requestheader_uid_headers: tuple[str, ...] = _option(
        ("x-remote-uid",),
        "requestheader-uid-headers",
        convert.texts,
        _AUTHENTICATION,
        "request headers to take the UID from",
        metavar="NAMES",
    )
    requestheader_group_headers: tuple[str, ...] = _option(
        ("x-remote-group",),
        "requestheader-group-headers",
        convert.texts,
        _AUTHENTICATION,
        "request headers to take groups from",
        metavar="NAMES",
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = _option(
        ("x-remote-extra-",),
        "requestheader-extra-headers-prefix",
        convert.texts,
        _AUTHENTICATION,
        "prefixes of request headers to take the user's extra fields from",
        metavar="PREFIXES",
    )
    authentication_kubeconfig: Path | None = _option(
        None,
        "authentication-kubeconfig",
        convert.path,
        _AUTHENTICATION,
        "kubeconfig of the cluster for TokenReviews and the extension-apiserver-authentication ConfigMap (default: --kubeconfig)",
        metavar="FILE",
    )
    authentication_skip_lookup: bool = _option(
        False,
        "authentication-skip-lookup",
        convert.boolean,
        _AUTHENTICATION,
        "do not read the extension-apiserver-authentication ConfigMap; use the flags alone",
    )
    authentication_tolerate_lookup_failure: bool = _option(
        False,
        "authentication-tolerate-lookup-failure",
        convert.boolean,
        _AUTHENTICATION,
        "start even if that ConfigMap can't be read; requests may then be treated as anonymous",
    )
    authentication_token_cache_seconds: float = _option(
        10.0,
        "authentication-token-webhook-cache-ttl",
        convert.seconds,
        _AUTHENTICATION,
        "TTL of cached TokenReview results",
        metavar="DURATION",
    )
    anonymous_auth: bool = _option(
        True,
        "anonymous-auth",
        convert.boolean,
        _AUTHENTICATION,
        "treat requests without credentials as user system:anonymous, instead of answering 401",
        commands=BOTH,
    )

    service_account_key_files: tuple[str, ...] = _option(
        (),
        "service-account-key-file",
        convert.sources,
        _AUTHENTICATION,
        "public or private keys (RSA or ECDSA, PEM) to verify tokens of ServiceAccounts with; may be repeated",
        metavar="FILE",
        commands=DEV,
    )
    service_account_signing_key_file: Path | None = _option(
        None,
        "service-account-signing-key-file",
        convert.path,
        _AUTHENTICATION,
        "private key to sign tokens of ServiceAccounts with (default: a key in the --data folder, made at its first use)",
        metavar="FILE",
        commands=DEV,
    )
    service_account_issuers: tuple[str, ...] = _option(
        (),
        "service-account-issuer",
        convert.sources,
        _AUTHENTICATION,
        "issuer of tokens of ServiceAccounts; may be repeated: the first makes tokens, those of all are accepted (default: "
        "https://kubernetes.default.svc.cluster.local)",
        metavar="URL",
        commands=DEV,
    )
    api_audiences: tuple[str, ...] = _option(
        (),
        "api-audiences",
        convert.texts,
        _AUTHENTICATION,
        "audiences of which a token must have one to be accepted, comma-separated (default: the issuers)",
        metavar="NAMES",
        commands=DEV,
    )
    service_account_max_token_expiration_seconds: float = _option(
        0.0,
        "service-account-max-token-expiration",
        convert.seconds,
        _AUTHENTICATION,
        "how long tokens of ServiceAccounts hold at most, whatever is requested; 0 is no limit",
        metavar="DURATION",
        commands=DEV,
    )
    user: str = _option(
        "", "user", convert.text, _AUTHENTICATION, "name of the user", metavar="NAME", commands=DEV_USER, positional=True
    )
    user_groups: tuple[str, ...] = _option(
        (),
        "group",
        convert.texts,
        _AUTHENTICATION,
        "group of the user; may be repeated",
        metavar="NAME",
        commands=DEV_USER,
    )
    server_url: str = _option(
        "",
        "server",
        convert.text,
        _SERVING,
        "URL of the server (default: that in the kubeconfig of its --data folder or, before its first start, "
        "https://127.0.0.1:6443)",
        metavar="URL",
        commands=DEV_USER,
    )

    authorization_mode: tuple[str, ...] = _option(
        ("RBAC",),
        "authorization-mode",
        convert.texts,
        _AUTHORIZATION,
        f"modes that are asked in order, comma-separated: {', '.join(AUTHORIZATION_MODES)}; Node decides nothing",
        metavar="MODES",
        commands=DEV,
    )
    authorization_kubeconfig: Path | None = _option(
        None,
        "authorization-kubeconfig",
        convert.path,
        _AUTHORIZATION,
        "kubeconfig of the cluster for SubjectAccessReviews (default: --kubeconfig)",
        metavar="FILE",
    )
    authorization_always_allow_paths: tuple[str, ...] = _option(
        ("/healthz", "/readyz", "/livez"),
        "authorization-always-allow-paths",
        convert.texts,
        _AUTHORIZATION,
        "paths that are allowed without a SubjectAccessReview; a trailing * matches any suffix",
        metavar="PATHS",
    )
    authorization_allow_cache_seconds: float = _option(
        10.0,
        "authorization-webhook-cache-authorized-ttl",
        convert.seconds,
        _AUTHORIZATION,
        "TTL of cached allow decisions",
        metavar="DURATION",
    )
    authorization_deny_cache_seconds: float = _option(
        10.0,
        "authorization-webhook-cache-unauthorized-ttl",
        convert.seconds,
        _AUTHORIZATION,
        "TTL of cached deny decisions",
        metavar="DURATION",
    )

    enable_admission_plugins: tuple[str, ...] = _option(
        (),
        "enable-admission-plugins",
        convert.texts,
        _ADMISSION,
        f"plugins to enable besides the defaults ({_DEFAULT_PLUGINS}), comma-separated: {', '.join(ADMISSION_PLUGINS)}",
        metavar="NAMES",
        commands=BOTH,
    )
    disable_admission_plugins: tuple[str, ...] = _option(
        (),
        "disable-admission-plugins",
        convert.texts,
        _ADMISSION,
        "plugins to disable although they are enabled by default, comma-separated",
        metavar="NAMES",
        commands=BOTH,
    )

    admission_control_config_file: Path | None = _option(
        None,
        "admission-control-config-file",
        convert.path,
        _ADMISSION,
        "AdmissionConfiguration, with a kubeconfig that has the users as which the server calls webhooks",
        metavar="FILE",
        commands=BOTH,
    )

    kinds: str = _option(
        "all",
        "kinds",
        convert.one_of(*KINDS),
        _SERVING,
        "built-in kinds to serve, such as Pods, Secrets and Deployments: all or none; namespaces are always served",
        metavar="all|none",
        commands=DEV,
    )
    service_cluster_ip_range: str = _option(
        "10.0.0.0/24",
        "service-cluster-ip-range",
        convert.ipv4_network,
        _SERVING,
        "range of IPv4 addresses for Services",
        metavar="CIDR",
        commands=DEV,
    )

    controllers: tuple[str, ...] = _option(
        ("*",),
        "controllers",
        convert.texts,
        _CONTROLLERS,
        f"controllers to run, comma-separated: * for all, NAME for one, -NAME for all but one; all are {', '.join(CONTROLLERS)}",
        metavar="NAMES",
        commands=DEV,
    )

    pods: str = _option(
        "keep",
        "pods",
        convert.one_of(*PODS),
        _CONTROLLERS,
        "keep: Pods stay as clients make them; pending: workloads get their Pods, which stay Pending; run: workloads get their "
        "Pods, all Pods are Running at once, and those of Jobs succeed",
        metavar="keep|pending|run",
        commands=DEV,
    )
    job_seconds: float = _option(
        0.0,
        "job-duration",
        convert.seconds,
        _CONTROLLERS,
        "with --pods=run: how long the Pods of Jobs run before they succeed",
        metavar="DURATION",
        commands=DEV,
    )
    protect_definitions: bool = _option(
        False,
        "protect-definitions",
        convert.boolean,
        _LIMITS,
        "refuse to delete a CustomResourceDefinition that still has objects, unless its annotations permit it",
        commands=DEV,
    )
    max_requests_inflight: int = _option(
        400,
        "max-requests-inflight",
        convert.integer,
        _LIMITS,
        "maximum of concurrent read requests; 0 is no limit",
        metavar="N",
        commands=BOTH,
    )
    max_mutating_requests_inflight: int = _option(
        200,
        "max-mutating-requests-inflight",
        convert.integer,
        _LIMITS,
        "maximum of concurrent mutating requests; 0 is no limit",
        metavar="N",
        commands=BOTH,
    )
    request_timeout_seconds: float = _option(
        60.0,
        "request-timeout",
        convert.seconds,
        _LIMITS,
        "time limit of a request; watches are exempt",
        metavar="DURATION",
        commands=BOTH,
    )

    max_object_bytes: int = _option(
        3 * 1024 * 1024,
        "max-object-bytes",
        convert.positive,
        _LIMITS,
        "largest object that is stored, in bytes of JSON; request bodies are limited to 3 MiB regardless",
        metavar="BYTES",
        commands=BOTH | PLAN,
    )

    rules_see_labels: bool = _option(
        False,
        "rules-see-labels",
        convert.boolean,
        _RULES,
        "let x-kubernetes-validations rules read labels and annotations, which kube-apiserver hides from them",
        commands=BOTH | CEL,
    )
    rules_budget: int = _option(
        1,
        "rules-budget",
        convert.positive,
        _RULES,
        "factor on every CEL cost limit; 1 is kube-apiserver's limits",
        metavar="FACTOR",
        commands=BOTH | CEL | CONVERT,
    )
    expression: str = _option(
        "",
        "expression",
        convert.text,
        _RULES,
        "CEL expression to check and evaluate (default: all rules of --definition)",
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
        "file with the CustomResourceDefinition; - is standard input, here and for the objects",
        metavar="FILE",
        commands=CEL | CONVERT,
        short="-f",
    )
    definition_version: str = _option(
        "",
        "version",
        convert.text,
        _RULES,
        "version of the definition to use (default: the object's, or else the storage version)",
        metavar="VERSION",
        commands=CEL,
    )
    at: str = _option(
        ".",
        "at",
        convert.text,
        _RULES,
        "location of self in the schema; .spec.items[] is each item of a list or value of a map",
        metavar="PLACE",
        commands=CEL,
    )
    object_file: Path | None = _option(
        None,
        "object",
        convert.path,
        _RULES,
        "file with the object; self is this object or, with --at, a part of it",
        metavar="FILE",
        commands=CEL,
    )
    old_object_file: Path | None = _option(
        None,
        "old-object",
        convert.path,
        _RULES,
        "file with the object before the update, for oldSelf",
        metavar="FILE",
        commands=CEL,
    )
    to: str = _option(
        "", "to", convert.text, _CONVERSION, "version to convert the objects to", metavar="VERSION", commands=CONVERT
    )
    check: bool = _option(
        False,
        "check",
        convert.boolean,
        _CONVERSION,
        "check the conversion rules: types, costs, and what does not come back when generated objects are converted both ways",
        commands=CONVERT,
    )
    objects_file: Path | None = _option(
        None,
        "objects",
        convert.path,
        _CONVERSION,
        "file with the objects to convert, in any versions",
        metavar="OBJECTS",
        commands=CONVERT,
        positional=True,
        optional=True,
    )
    project: str = _option(
        "",
        "project",
        convert.text,
        "",
        "folder to make, whose name is that of the module, too",
        metavar="NAME",
        commands=NEW,
        positional=True,
    )
    assets: Path | None = _option(
        None,
        "assets",
        convert.path,
        "",
        "folder to write the programs to, for KUBEBUILDER_ASSETS; made if it is not there",
        metavar="DIR",
        commands=ENVTEST,
        positional=True,
    )
    type_name: str = _option(
        "",
        "type",
        convert.text,
        "",
        "module and class, such as shop:Site; the module is looked for in this folder first",
        metavar="MODULE:TYPE",
        commands=SCHEMA,
        positional=True,
    )
    shell: str = _option(
        "",
        "shell",
        convert.one_of(*SHELLS),
        "",
        f"one of {', '.join(SHELLS)}",
        metavar="SHELL",
        commands=COMPLETION,
        positional=True,
    )
    output: str = _option(
        "text",
        "output",
        convert.one_of(*OUTPUTS),
        _RULES,
        f"output format: {', '.join(OUTPUTS)}",
        metavar="FORMAT",
        commands=CEL | CONVERT | SCHEMA | ADOPT,
        short="-o",
    )


FLAGS: dict[str, Flag] = {field.name: field.metadata["flag"] for field in dataclasses.fields(Options) if "flag" in field.metadata}
"""Each option by the name of its field in Options."""
