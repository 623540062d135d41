"""Options: everything an operator can say, from flags, environment and a YAML file, as one frozen value.

Only `cli.py` and `app.py` see it; below them go plain values. One field is one option: its metadata makes the flag, the variable
(`--secure-port`: AGGSERVER_SECURE_PORT) and the key of the file (`secure-port: 6443`). A flag wins over a variable, a variable
over the file, the file over the default. Flags that kube-apiserver's library has keep its names, syntax and defaults; units are
in the names of the fields. Reads the file and nothing else.
Source: k8s.io/apiserver pkg/server/options, v0.36.3.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NoReturn

from aggserver.meta import duration, yaml_text

__all__ = ["Options", "OptionsError", "parse"]

PREFIX = "AGGSERVER_"
COMMANDS = {
    "serve": "serve the definitions of a folder beside a cluster, through its aggregation layer",
    "dev": "serve CustomResourceDefinitions on their own, without a cluster",
    "version": "print the version",
    "storage check": "see whether the SQLite store of a folder is sound, also while a server uses it",
    "storage backup": "copy the SQLite store of a folder to a file, also while a server uses it",
    "storage restore": "make a backup the SQLite store of a folder that has none",
    "storage compact": "forget the history of a SQLite store that no server uses, and give the room back",
}
STORAGE = frozenset(command for command in COMMANDS if command.startswith("storage "))
SERVE, DEV = frozenset({"serve"}), frozenset({"dev"})
BOTH = SERVE | DEV
LOG_LEVELS = ("debug", "info", "warning", "error")
STORAGES = ("sqlite", "etcd")
TLS_VERSIONS = ("VersionTLS12", "VersionTLS13")

# What the kubelet puts into every container for a Service called aggserver or aggserver-something; not meant for us.
SERVICE_LINK = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")

Convert = Callable[[Any], Any]


class OptionsError(Exception):
    """An option that can't be used; the text is one line that names it."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def _path(value: Any) -> Path | None:
    return Path(_text(value)).expanduser() if value else None


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", str(value)):
        raise ValueError("must be a whole number, 0 or more")
    return int(value)


def _revisions(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"[1-9]\d{0,14}", str(value)):
        raise ValueError("must be a whole number, 1 or more")
    return int(value)


def _port(value: Any) -> int:
    if (port := _integer(value)) > 65535:
        raise ValueError("must be between 0 and 65535")
    return port


def _boolean(value: Any) -> bool:
    words = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
    if (found := words.get(str(value).lower())) is None:
        raise ValueError("must be true or false")
    return found


def _seconds(value: Any) -> float:
    seconds = duration.parse(_text(value) if value != 0 else "0")
    if seconds < 0:
        raise ValueError("must not be negative")
    return seconds


def _list(value: Any) -> tuple[str, ...]:
    """A comma-separated text, or a list whose members may be such texts, as a repeated flag gives."""
    members = value if isinstance(value, list) else [value]
    return tuple(part.strip() for member in members for part in _text(member).split(",") if part.strip())


def _files(value: Any) -> tuple[Path, ...]:
    """File names, each as it is: one may have a comma."""
    return tuple(Path(_text(member)) for member in (value if isinstance(value, list) else [value]))


def _address(value: Any) -> str:
    return str(ip_address(_text(value)))


def _one_of(*choices: str) -> Convert:
    def convert(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return convert


@dataclass(frozen=True, slots=True)
class _Flag:
    """How an option is said: `dev` is its default under that command, where it differs from the field's.

    One with `positional` is an argument that must be given, and nothing else.
    """

    name: str
    convert: Convert
    group: str
    text: str
    metavar: str = ""
    commands: frozenset[str] = SERVE
    dev: Any = None
    short: str = ""
    positional: bool = False

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace("-", "_")


def _flag(name: str, convert: Convert, group: str, text: str, **more: Any) -> dict[str, _Flag]:
    return {"flag": _Flag(name, convert, group, text, **more)}


_SERVING, _STORAGE, _TLS, _CLUSTER = "serving", "storage", "TLS", "the cluster beside"
_AUTHENTICATION, _AUTHORIZATION, _LIMITS = "authentication", "authorization", "limits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was said, or the defaults. Empty texts and None mean: not given. Durations are seconds."""

    command: str

    secure_port: int = field(
        default=443,
        metadata=_flag(
            "secure-port", _port, _SERVING, "port for HTTPS; 0 takes a free one", metavar="PORT", commands=BOTH, dev=6443
        ),
    )
    bind_address: str = field(
        default="0.0.0.0",  # noqa: S104  a server in a pod is reached at the pod's address
        metadata=_flag(
            "bind-address",
            _address,
            _SERVING,
            "IP address to listen on; :: is all of IPv4 and IPv6",
            metavar="IP",
            commands=BOTH,
            dev="127.0.0.1",
        ),
    )
    definitions: Path | None = field(
        default=None,
        metadata=_flag(
            "definitions", _path, _SERVING, "folder of CustomResourceDefinition manifests, followed for changes", metavar="DIR"
        ),
    )
    files: tuple[Path, ...] = field(
        default=(),
        metadata=_flag(
            "filename", _files, _SERVING, "manifest to create at start; may be repeated", metavar="FILE", commands=DEV, short="-f"
        ),
    )
    data: str = field(
        default="/var/lib/aggserver",
        metadata=_flag(
            "data",
            _text,
            _STORAGE,
            "folder of the database and of what else is kept, or :memory: for none",
            metavar="DIR",
            commands=BOTH | STORAGE,
            dev=".aggserver",
        ),
    )
    sqlite_synchronous: str = field(
        default="full",
        metadata=_flag(
            "sqlite-synchronous",
            _one_of("full", "normal"),
            _STORAGE,
            "full: a write is on the disk before it is answered; normal: quicker, a power cut may lose the last writes",
            metavar="MODE",
            commands=BOTH,
        ),
    )
    sqlite_compaction_interval_seconds: float = field(
        default=300.0,
        metadata=_flag(
            "sqlite-compaction-interval",
            _seconds,
            _STORAGE,
            "history is kept for one to two of these, and never more than 500,000 writes; 0 leaves only that bound",
            metavar="DURATION",
            commands=BOTH,
        ),
    )
    file: Path | None = field(
        default=None,
        metadata=_flag(
            "file",
            _path,
            _STORAGE,
            "the backup",
            metavar="FILE",
            commands=frozenset({"storage backup", "storage restore"}),
            positional=True,
        ),
    )
    bump_revision: int = field(
        default=1_000_000_000,
        metadata=_flag(
            "bump-revision",
            _revisions,
            _STORAGE,
            "how far to raise the revision above the backup's: beyond all that was given since",
            metavar="N",
            commands=frozenset({"storage restore"}),
        ),
    )
    shutdown_delay_seconds: float = field(
        default=0.0,
        metadata=_flag(
            "shutdown-delay-duration",
            _seconds,
            _SERVING,
            "time between failing /readyz and refusing connections, for load balancers to notice",
            metavar="DURATION",
        ),
    )
    shutdown_grace_seconds: float = field(
        default=60.0,
        metadata=_flag(
            "shutdown-grace-period",
            _seconds,
            _SERVING,
            "time for requests in flight after that",
            metavar="DURATION",
            commands=BOTH,
            dev=5.0,
        ),
    )
    log_level: str = field(
        default="info",
        metadata=_flag("log-level", _one_of(*LOG_LEVELS), _SERVING, ", ".join(LOG_LEVELS), metavar="LEVEL", commands=BOTH),
    )

    storage: str = field(
        default="sqlite",
        metadata=_flag(
            "storage",
            _one_of(*STORAGES),
            _STORAGE,
            "sqlite: one file in the folder of --data; etcd: for several servers",
            metavar="KIND",
            commands=BOTH,
        ),
    )
    etcd_servers: tuple[str, ...] = field(
        default=(),
        metadata=_flag(
            "etcd-servers", _list, _STORAGE, "URLs of etcd's members, as https://host:2379", metavar="URLS", commands=BOTH
        ),
    )
    etcd_cafile: Path | None = field(
        default=None,
        metadata=_flag(
            "etcd-cafile", _path, _STORAGE, "CAs of etcd's certificates (default: the system's)", metavar="FILE", commands=BOTH
        ),
    )
    etcd_certfile: Path | None = field(
        default=None,
        metadata=_flag("etcd-certfile", _path, _STORAGE, "client certificate for etcd", metavar="FILE", commands=BOTH),
    )
    etcd_keyfile: Path | None = field(
        default=None, metadata=_flag("etcd-keyfile", _path, _STORAGE, "its private key", metavar="FILE", commands=BOTH)
    )
    etcd_prefix: str = field(
        default="/registry",
        metadata=_flag("etcd-prefix", _text, _STORAGE, "what all keys in etcd begin with", metavar="PATH", commands=BOTH),
    )
    etcd_compaction_interval_seconds: float = field(
        default=300.0,
        metadata=_flag(
            "etcd-compaction-interval",
            _seconds,
            _STORAGE,
            "how long etcd keeps history, at least; 0 leaves compaction to others",
            metavar="DURATION",
            commands=BOTH,
        ),
    )

    tls_cert_file: Path | None = field(
        default=None,
        metadata=_flag(
            "tls-cert-file",
            _path,
            _TLS,
            "serving certificate, followed by its intermediates; without one, a CA and a certificate are made and renewed",
            metavar="FILE",
        ),
    )
    tls_private_key_file: Path | None = field(
        default=None, metadata=_flag("tls-private-key-file", _path, _TLS, "private key of --tls-cert-file", metavar="FILE")
    )
    ca_bundle_file: Path | None = field(
        default=None,
        metadata=_flag(
            "ca-bundle-file",
            _path,
            _TLS,
            "CAs by which the aggregator is to know --tls-cert-file (default: that certificate itself)",
            metavar="FILE",
        ),
    )
    cert_dir: Path | None = field(
        default=None,
        metadata=_flag(
            "cert-dir",
            _path,
            _TLS,
            "folder for the certificates the server makes (default: a Secret beside the Service)",
            metavar="DIR",
        ),
    )
    tls_min_version: str = field(
        default="VersionTLS12",
        metadata=_flag(
            "tls-min-version", _one_of(*TLS_VERSIONS), _TLS, " or ".join(TLS_VERSIONS), metavar="VERSION", commands=BOTH
        ),
    )
    tls_cipher_suites: tuple[str, ...] = field(
        default=(),
        metadata=_flag(
            "tls-cipher-suites",
            _list,
            _TLS,
            "cipher suites for TLS 1.2, by IANA names, comma-separated",
            metavar="NAMES",
            commands=BOTH,
        ),
    )

    kubeconfig: Path | None = field(
        default=None,
        metadata=_flag(
            "kubeconfig", _path, _CLUSTER, "how to reach the cluster (default: the pod's service account)", metavar="FILE"
        ),
    )
    service_name: str = field(
        default="aggserver",
        metadata=_flag(
            "service-name", _text, _CLUSTER, "Service that leads to this server; APIServices are pointed at it", metavar="NAME"
        ),
    )
    service_namespace: str = field(
        default="",
        metadata=_flag("service-namespace", _text, _CLUSTER, "namespace of that Service (default: the pod's)", metavar="NAME"),
    )
    service_port: int = field(
        default=443, metadata=_flag("service-port", _port, _CLUSTER, "port of that Service", metavar="PORT")
    )

    client_ca_file: Path | None = field(
        default=None,
        metadata=_flag(
            "client-ca-file",
            _path,
            _AUTHENTICATION,
            "CAs of client certificates: CN is the user, O the groups (default: the cluster's)",
            metavar="FILE",
        ),
    )
    requestheader_client_ca_file: Path | None = field(
        default=None,
        metadata=_flag(
            "requestheader-client-ca-file",
            _path,
            _AUTHENTICATION,
            "CAs of the proxy whose headers name the user (default: the cluster's)",
            metavar="FILE",
        ),
    )
    requestheader_allowed_names: tuple[str, ...] = field(
        default=(),
        metadata=_flag(
            "requestheader-allowed-names", _list, _AUTHENTICATION, "common names of that proxy; any if empty", metavar="NAMES"
        ),
    )
    requestheader_username_headers: tuple[str, ...] = field(
        default=("x-remote-user",),
        metadata=_flag("requestheader-username-headers", _list, _AUTHENTICATION, "headers with the user name", metavar="NAMES"),
    )
    requestheader_uid_headers: tuple[str, ...] = field(
        default=("x-remote-uid",),
        metadata=_flag("requestheader-uid-headers", _list, _AUTHENTICATION, "headers with the uid", metavar="NAMES"),
    )
    requestheader_group_headers: tuple[str, ...] = field(
        default=("x-remote-group",),
        metadata=_flag("requestheader-group-headers", _list, _AUTHENTICATION, "headers with a group each", metavar="NAMES"),
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = field(
        default=("x-remote-extra-",),
        metadata=_flag(
            "requestheader-extra-headers-prefix",
            _list,
            _AUTHENTICATION,
            "prefixes of headers with more about the user",
            metavar="PREFIXES",
        ),
    )
    authentication_kubeconfig: Path | None = field(
        default=None,
        metadata=_flag(
            "authentication-kubeconfig",
            _path,
            _AUTHENTICATION,
            "cluster that reviews tokens, and has the ConfigMap extension-apiserver-authentication (default: --kubeconfig)",
            metavar="FILE",
        ),
    )
    authentication_skip_lookup: bool = field(
        default=False,
        metadata=_flag("authentication-skip-lookup", _boolean, _AUTHENTICATION, "use the flags alone, not that ConfigMap"),
    )
    authentication_tolerate_lookup_failure: bool = field(
        default=False,
        metadata=_flag(
            "authentication-tolerate-lookup-failure",
            _boolean,
            _AUTHENTICATION,
            "serve although it can't be read: requests may then be anonymous",
        ),
    )
    authentication_token_cache_seconds: float = field(
        default=10.0,
        metadata=_flag(
            "authentication-token-webhook-cache-ttl",
            _seconds,
            _AUTHENTICATION,
            "how long a review of a token holds",
            metavar="DURATION",
        ),
    )
    anonymous_auth: bool = field(
        default=True,
        metadata=_flag("anonymous-auth", _boolean, _AUTHENTICATION, "let requests without credentials in, as system:anonymous"),
    )

    authorization_kubeconfig: Path | None = field(
        default=None,
        metadata=_flag(
            "authorization-kubeconfig",
            _path,
            _AUTHORIZATION,
            "cluster that reviews access (default: --kubeconfig)",
            metavar="FILE",
        ),
    )
    authorization_always_allow_paths: tuple[str, ...] = field(
        default=("/healthz", "/readyz", "/livez"),
        metadata=_flag(
            "authorization-always-allow-paths",
            _list,
            _AUTHORIZATION,
            "paths open to everybody; a * may stand at the end",
            metavar="PATHS",
        ),
    )
    authorization_allow_cache_seconds: float = field(
        default=10.0,
        metadata=_flag(
            "authorization-webhook-cache-authorized-ttl", _seconds, _AUTHORIZATION, "how long a yes holds", metavar="DURATION"
        ),
    )
    authorization_deny_cache_seconds: float = field(
        default=10.0,
        metadata=_flag(
            "authorization-webhook-cache-unauthorized-ttl", _seconds, _AUTHORIZATION, "how long a no holds", metavar="DURATION"
        ),
    )

    protect_definitions: bool = field(
        default=False,
        metadata=_flag(
            "protect-definitions",
            _boolean,
            _LIMITS,
            "refuse to delete a definition that still has objects, unless it is annotated otherwise",
            commands=DEV,
        ),
    )
    max_requests_inflight: int = field(
        default=400,
        metadata=_flag("max-requests-inflight", _integer, _LIMITS, "reads at once; 0 is no limit", metavar="N", commands=BOTH),
    )
    max_mutating_requests_inflight: int = field(
        default=200,
        metadata=_flag(
            "max-mutating-requests-inflight", _integer, _LIMITS, "writes at once; 0 is no limit", metavar="N", commands=BOTH
        ),
    )
    request_timeout_seconds: float = field(
        default=60.0,
        metadata=_flag(
            "request-timeout", _seconds, _LIMITS, "longest time for a request that is no watch", metavar="DURATION", commands=BOTH
        ),
    )


_FLAGS: dict[str, _Flag] = {
    field.name: field.metadata["flag"] for field in dataclasses.fields(Options) if "flag" in field.metadata
}
_DEFAULTS = {one.name: one.default for one in dataclasses.fields(Options)}


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Options:
    """Options from the arguments (without the program's name) and the environment.

    Raises OptionsError, and SystemExit(0) after printing for --help.
    """
    said = vars(_parser().parse_args(argv))
    command: str = said.pop("command")
    config: str | None = said.pop("config", None) or environ.get(f"{PREFIX}CONFIG")
    if command == "version":
        return Options(command=command)
    flags = {field: flag for field, flag in _FLAGS.items() if command in flag.commands}
    values = {field: flag.dev for field, flag in flags.items() if command == "dev" and flag.dev is not None}
    values |= _from_file(config, flags) if config else {}
    values |= _from_environment(environ, flags)
    values |= {field: _converted(flags[field], f"--{flags[field].name}", value) for field, value in said.items()}
    options = Options(command=command, **values)
    _check(options)
    return options


def _check(options: Options) -> None:
    """What no single option can know. Raises OptionsError."""
    if (options.tls_cert_file is None) != (options.tls_private_key_file is None):
        raise OptionsError("--tls-cert-file and --tls-private-key-file go together")
    if options.ca_bundle_file is not None and options.tls_cert_file is None:
        raise OptionsError("--ca-bundle-file has no meaning without --tls-cert-file")
    if options.authentication_skip_lookup and options.authentication_tolerate_lookup_failure:
        raise OptionsError("--authentication-tolerate-lookup-failure has no meaning with --authentication-skip-lookup")
    if options.storage == "etcd" and not options.etcd_servers:
        raise OptionsError("--storage etcd needs --etcd-servers")
    if options.storage != "etcd" and options.etcd_servers:
        raise OptionsError("--etcd-servers has no meaning without --storage etcd")
    if (options.etcd_certfile is None) != (options.etcd_keyfile is None):
        raise OptionsError("--etcd-certfile and --etcd-keyfile go together")
    if options.request_timeout_seconds <= 0:
        raise OptionsError("--request-timeout: must be more than 0")
    if options.requestheader_client_ca_file and not options.requestheader_username_headers:
        raise OptionsError("--requestheader-username-headers: at least one is needed with --requestheader-client-ca-file")


def _from_environment(environ: Mapping[str, str], flags: Mapping[str, _Flag]) -> dict[str, Any]:
    known = {flag.variable: field for field, flag in _FLAGS.items() if not flag.positional}
    values: dict[str, Any] = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable == f"{PREFIX}CONFIG":
            continue
        field = known.get(variable)
        if SERVICE_LINK.fullmatch(variable.removeprefix(PREFIX)) and (field is None or "://" in value):
            continue
        if field is None:
            raise OptionsError(f"environment variable {variable}: no such option")
        if field in flags:  # one environment may do for both commands
            values[field] = _converted(flags[field], variable, value)
    return values


def _from_file(path: str, flags: Mapping[str, _Flag]) -> dict[str, Any]:
    known = {flag.name: field for field, flag in _FLAGS.items() if not flag.positional}
    try:
        content, repeated = yaml_text.decode(Path(path).read_bytes())
    except OSError as error:
        raise OptionsError(f"--config: {path}: {error.strerror}") from error
    except yaml_text.YAMLTextError as error:
        raise OptionsError(f"--config: {path}: {' '.join(str(error).split())}") from error
    if repeated:
        raise OptionsError(f"--config: {path}: {repeated[0]}")
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise OptionsError(f"--config: {path}: must be a mapping of option names to values")
    values: dict[str, Any] = {}
    for key, value in content.items():
        if key not in known:
            raise OptionsError(f"{path}: {key}: no such option")
        if known[key] in flags:
            values[known[key]] = _converted(flags[known[key]], f"{path}: {key}", value)
    return values


def _converted(flag: _Flag, where: str, value: Any) -> Any:
    try:
        return flag.convert(value)
    except ValueError as error:
        raise OptionsError(f"{where}: {error}") from error


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise OptionsError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="aggserver", description="An extension API server for the Kubernetes aggregation layer.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    groups = {
        "storage": commands.add_parser(
            "storage",
            help="check, backup, restore, compact: care for a SQLite store",
            usage="aggserver storage COMMAND [OPTION...]",
            description="Care for the SQLite store of a data folder. With --storage etcd, etcdctl and etcdutl do the same.",
            allow_abbrev=False,
        ).add_subparsers(dest="command", metavar="COMMAND", required=True)
    }
    for command, text in COMMANDS.items():
        group, _, name = command.rpartition(" ")
        sub = groups.get(group, commands).add_parser(
            name,
            help=text,
            usage=f"aggserver {command} [OPTION...]{_arguments(command)}",
            description=text[0].upper() + text[1:] + ".",
            epilog=_epilog(command),
            allow_abbrev=False,
        )
        sub.set_defaults(command=command)
        if command != "version":
            _add_flags(sub, command)
    return parser


def _arguments(command: str) -> str:
    return "".join(f" {flag.metavar}" for flag in _FLAGS.values() if flag.positional and command in flag.commands)


def _epilog(command: str) -> str:
    if command == "version":
        return ""
    return (
        f"Every option is also an environment variable (--secure-port: {PREFIX}SECURE_PORT) and a key of the --config file "
        "(secure-port). A flag wins over a variable, a variable over the file. Durations are written as 10s, 1m30s, 1h."
    )


def _add_flags(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="YAML file of options")
    groups: dict[str, Any] = {}
    for name, flag in _FLAGS.items():
        if command not in flag.commands:
            continue
        if flag.positional:
            parser.add_argument(name, metavar=flag.metavar, help=flag.text)
            continue
        group = groups.get(flag.group) or groups.setdefault(flag.group, parser.add_argument_group(flag.group))
        names = [flag.short, f"--{flag.name}"] if flag.short else [f"--{flag.name}"]
        more: dict[str, Any] = {"metavar": flag.metavar}
        if flag.convert is _boolean:
            # as in Go: --flag or --flag=false
            more = {"metavar": "true|false", "nargs": "?", "const": "true"}
        elif flag.convert in (_list, _files):
            more["action"] = "append"
        default = flag.dev if command == "dev" and flag.dev is not None else _DEFAULTS[name]
        group.add_argument(*names, dest=name, default=argparse.SUPPRESS, help=flag.text + _shown(default, flag), **more)


def _shown(default: Any, flag: _Flag) -> str:
    """The default, as it would be written."""
    if default is None or default in ("", ()):
        return ""
    if flag.convert is _seconds:
        default = f"{default:g}s"
    elif isinstance(default, tuple):
        default = ",".join(default)
    elif isinstance(default, bool):
        default = str(default).lower()
    return f" (default: {default})".replace("%", "%%")
