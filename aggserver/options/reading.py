"""Reading the options: flags, environment variables and the configuration file, by the table of options, into one `Options`.

A flag has priority over a variable, a variable over the file, the file over the default. Reading the file is the only I/O.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from aggserver.errors import AggserverError
from aggserver.meta.golang import quote
from aggserver.options import convert
from aggserver.options.table import (
    ADMISSION_PLUGINS,
    ASK,
    AUTHORIZATION_MODES,
    COMMANDS,
    COMPLETION,
    CONTROLLERS,
    FLAGS,
    PREFIX,
    WITH_COMMAND,
    Flag,
    Options,
)

__all__ = ["OptionsError", "is_controller_enabled", "parse"]

# Environment variables that the kubelet adds to every container for a Service named aggserver or aggserver-*. They look like
# options but are not, so they are ignored.
SERVICE_LINK = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")

# Commands that use only their arguments; they ignore variables and the configuration file.
_WITHOUT_OPTIONS = COMPLETION | {"version"}

# Commands whose options have the defaults of `aggserver dev`.
_USER = "dev user"
_LIKE_DEV = ("dev", _USER)

_DEFAULTS = {one.name: one.default for one in dataclasses.fields(Options)}


class OptionsError(AggserverError):
    """An invalid option. The text is one line that names the option and what is wrong."""

    exit_status = 2


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Options:
    """Options from the arguments (without the program's name) and the environment variables.

    Raises OptionsError for invalid options, and SystemExit(0) after printing help, for --help or if no command is given.
    """
    argv, run = _split(argv)
    given = vars(_parser().parse_args(argv))
    command, parser = given.pop("command"), given.pop("parser")
    if given.pop("version_asked", False):
        command = "version"
    if command is None:
        parser.print_help()
        raise SystemExit(0)
    config: str | None = given.pop("config", None) or environ.get(f"{PREFIX}CONFIG")
    flags = {field: flag for field, flag in FLAGS.items() if command in flag.commands}
    values: dict[str, Any] = {}
    if command not in _WITHOUT_OPTIONS:
        values |= {field: flag.dev for field, flag in flags.items() if command in _LIKE_DEV and flag.dev is not None}
        values |= WITH_COMMAND if run else {}
        values |= _from_file(config, flags) if config else {}
        values |= _from_environment(environ, flags)
    values |= {field: _converted(flags[field], _displayed(flags[field]), value) for field, value in given.items()}
    options = Options(command=command, run=run, **values)
    _check(options)
    return options


def _split(argv: Sequence[str]) -> tuple[Sequence[str], tuple[str, ...]]:
    """The arguments of `dev` before `--`, and the command after it. Raises OptionsError if that command is missing."""
    if list(argv[:2]) == _USER.split():
        return [_USER, *argv[2:]], ()  # one word for argparse: `dev` needs no subcommand, so it has no parser for them
    if "--" not in argv or argv[0] != "dev":
        return argv, ()
    at = list(argv).index("--")
    if not argv[at + 1 :]:
        raise OptionsError("dev: a command is required after --")
    return argv[:at], tuple(argv[at + 1 :])


def _displayed(flag: Flag) -> str:
    """The name of an argument in error messages."""
    return flag.metavar if flag.positional else f"--{flag.name}"


def _check(options: Options) -> None:
    """Check rules that involve several options. Raises OptionsError."""
    if (options.tls_cert_file is None) != (options.tls_private_key_file is None):
        raise OptionsError("--tls-cert-file and --tls-private-key-file go together")
    if options.ca_bundle_file is not None and options.tls_cert_file is None:
        raise OptionsError("--ca-bundle-file has no meaning without --tls-cert-file")
    if options.authentication_skip_lookup and options.authentication_tolerate_lookup_failure:
        raise OptionsError("--authentication-tolerate-lookup-failure has no meaning with --authentication-skip-lookup")
    if options.storage == "etcd" and not options.etcd_servers:
        raise OptionsError("--storage etcd requires --etcd-servers")
    if options.storage != "etcd" and options.etcd_servers:
        raise OptionsError("--etcd-servers has no meaning without --storage etcd")
    if (options.etcd_certfile is None) != (options.etcd_keyfile is None):
        raise OptionsError("--etcd-certfile and --etcd-keyfile go together")
    if (options.host_etcd_certfile is None) != (options.host_etcd_keyfile is None):
        raise OptionsError("--host-etcd-certfile and --host-etcd-keyfile go together")
    if options.host_etcd_cafile is not None and not options.host_etcd_servers:
        raise OptionsError("--host-etcd-cafile has no meaning without --host-etcd-servers")
    if options.host_etcd_certfile is not None and not options.host_etcd_servers:
        raise OptionsError("--host-etcd-certfile has no meaning without --host-etcd-servers")
    if options.host_etcd_servers and options.command == "serve" and options.adopt is None:
        raise OptionsError("--host-etcd-servers has no meaning without --adopt")
    if options.host_etcd_servers and options.command == "adopt release" and options.from_backup is None:
        raise OptionsError("--host-etcd-servers has no meaning without --from-backup: the server has its own")
    if options.discard and options.from_backup is not None:
        raise OptionsError("--discard has no meaning with --from-backup: there is no server that could delete anything")
    if options.request_timeout_seconds <= 0:
        raise OptionsError("--request-timeout: must be more than 0")
    if options.requestheader_client_ca_file and not options.requestheader_username_headers:
        raise OptionsError("--requestheader-username-headers: at least one is required with --requestheader-client-ca-file")
    _check_plugins(options)
    _check_modes(options.authorization_mode)
    _check_issuers(options)
    _check_controllers(options)
    _check_pods(options)
    _check_reload(options)
    if options.command == _USER:
        _check_user(options)
    if options.command == "cel":
        _check_cel(options)
    if options.command == "convert":
        _check_convert(options)
    if options.command == "manifests" and not (options.apps and options.image):
        raise OptionsError("manifests: --app and --image are required")
    if options.command in ASK and options.all_definitions == bool(options.definition_names):
        raise OptionsError(f"{options.command}: NAME or --all is required, and not both")


def _check_plugins(options: Options) -> None:
    """Check the admission plugins. Raises OptionsError with upstream's texts."""
    enabled, disabled = options.enable_admission_plugins, options.disable_admission_plugins
    for flag, names in (("enable-admission-plugins", enabled), ("disable-admission-plugins", disabled)):
        for name in names:
            if name not in ADMISSION_PLUGINS:
                raise OptionsError(f"{flag} plugin {quote(name)} is unknown; known are {', '.join(ADMISSION_PLUGINS)}")
    if both := sorted(set(enabled) & set(disabled)):
        raise OptionsError(f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped")


def _check_modes(modes: tuple[str, ...]) -> None:
    """Check the authorization modes. Raises OptionsError with upstream's texts."""
    if not modes:
        raise OptionsError("at least one authorization-mode must be passed")
    for mode in modes:
        if mode not in AUTHORIZATION_MODES:
            known = ", ".join(AUTHORIZATION_MODES)
            raise OptionsError(f"authorization-mode {quote(mode)} is not a valid mode; known are {known}")
    if len(set(modes)) < len(modes):
        listed = " ".join(map(quote, modes))
        raise OptionsError(f"authorization-mode [{listed}] has mode specified more than once")


def _check_issuers(options: Options) -> None:
    """Check the issuers of service accounts' tokens. Raises OptionsError with upstream's texts."""
    issuers = options.service_account_issuers
    if "" in issuers:
        raise OptionsError("service-account-issuer should not be an empty string")
    if repeated := next((issuer for issuer in issuers if issuers.count(issuer) > 1), None):
        raise OptionsError(f"service-account-issuer {quote(repeated)} is already specified")
    longest = options.service_account_max_token_expiration_seconds
    if longest and not 3600 <= longest <= 1 << 32:
        raise OptionsError("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")


def _check_controllers(options: Options) -> None:
    """Check the names of controllers. Raises OptionsError with upstream's text."""
    known = {*CONTROLLERS, *CONTROLLERS.values(), "*"}
    for name in options.controllers:
        if name.removeprefix("-") not in known:
            raise OptionsError(f"--controllers: {quote(name)} is not in the list of known controllers: {', '.join(CONTROLLERS)}")


def _check_pods(options: Options) -> None:
    if options.pods != "keep" and options.kinds == "none":
        raise OptionsError(f"--pods {options.pods} has no meaning with --kinds none")
    if options.job_seconds and options.pods != "run":
        raise OptionsError("--job-duration has no meaning without --pods run")


def _check_reload(options: Options) -> None:
    if not options.reload:
        return
    if not options.apps:
        raise OptionsError("--reload has no meaning without --app")
    if options.run:
        raise OptionsError("--reload has no meaning with -- COMMAND, for which the server runs once")
    if "-" in options.filenames:
        raise OptionsError("--reload: -f - can't be read again")


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


def _check_user(options: Options) -> None:
    if not options.user:
        raise OptionsError("NAME: must not be empty")
    if options.kubeconfig_to_write is None:
        raise OptionsError("dev user: --kubeconfig FILE is required: the file to write")
    if options.data == ":memory:":
        where = '--data "$(dirname "$KUBECONFIG")"'
        raise OptionsError(f"dev user: a server with --data :memory: has its CA in the folder of its kubeconfig: use {where}")
    if options.server_url and not re.match(r"https?://[^/]", options.server_url):
        raise OptionsError("--server: must be a URL, such as https://127.0.0.1:6443")


def _check_cel(options: Options) -> None:
    if not options.expression and options.definition_file is None:
        raise OptionsError("cel: an expression or --definition is required")
    if options.definition_file is None and (options.definition_version or options.at != "."):
        raise OptionsError("--version and --at have no meaning without --definition")
    if not options.expression and options.at != ".":
        raise OptionsError("--at has no meaning without an expression")
    if options.old_object_file is not None and options.object_file is None:
        raise OptionsError("--old-object has no meaning without --object")
    if [options.definition_file, options.object_file, options.old_object_file].count(Path("-")) > 1:
        raise OptionsError("-: standard input can be used for one file only")


def _check_convert(options: Options) -> None:
    if options.definition_file is None:
        raise OptionsError("convert: --definition is required")
    if options.check:
        if options.to or options.objects_file is not None:
            raise OptionsError("--check checks the definition alone, without --to and OBJECTS")
    elif not options.to or options.objects_file is None:
        raise OptionsError("convert: --to and OBJECTS are required, or --check")
    if options.definition_file == options.objects_file == Path("-"):
        raise OptionsError("-: standard input can be used for one file only")


def _from_environment(environ: Mapping[str, str], flags: Mapping[str, Flag]) -> dict[str, Any]:
    known = {flag.variable for flag in FLAGS.values() if not flag.positional}
    mine = {flag.variable: field for field, flag in flags.items() if not flag.positional}
    values: dict[str, Any] = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable == f"{PREFIX}CONFIG":
            continue
        if SERVICE_LINK.fullmatch(variable.removeprefix(PREFIX)) and (variable not in known or "://" in value):
            continue
        if variable not in known:
            raise OptionsError(f"environment variable {variable}: no such option")
        if field := mine.get(variable):  # options of other commands are allowed, so that all commands can share one environment
            values[field] = _converted(flags[field], variable, value)
    return values


def _from_file(path: str, flags: Mapping[str, Flag]) -> dict[str, Any]:
    # Imported here so that starts without a configuration file need not wait for the YAML library.
    from aggserver.meta import yaml_text

    known = {flag.name for flag in FLAGS.values() if not flag.positional}
    mine = {flag.name: field for field, flag in flags.items() if not flag.positional}
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
        if field := mine.get(key):
            values[field] = _converted(flags[field], f"{path}: {key}", value)
    return values


def _converted(flag: Flag, where: str, value: Any) -> Any:
    try:
        return flag.convert(value)
    except ValueError as error:
        raise OptionsError(f"{where}: {error}") from error


_DEV_HELP = (
    "With -- COMMAND, the server runs only for that command: the command gets a KUBECONFIG for the server, and when the command "
    "exits, the server stops and returns its exit status. Unless options say otherwise, such a server uses a free port, keeps "
    "nothing on disk and logs only warnings and errors. For a second user, see aggserver dev user --help. "
)
_COMPLETION_HELP = (
    "bash: run source <(aggserver completion bash), or add it to ~/.bashrc. "
    "zsh: add source <(aggserver completion zsh) to ~/.zshrc, after compinit. "
    "fish: add aggserver completion fish | source to ~/.config/fish/config.fish."
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise OptionsError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="aggserver", description="An extension API server for the Kubernetes aggregation layer.", allow_abbrev=False
    )
    parser.add_argument("--version", action="store_true", dest="version_asked", help="print the version")
    parser.set_defaults(parser=parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    storage = commands.add_parser(
        "storage",
        help="check, repair, back up, restore and compact a store",
        usage="aggserver storage COMMAND [OPTION...]",
        description="Maintain the SQLite store in a data folder. For etcd there is only check; use etcdctl for the rest.",
        allow_abbrev=False,
    )
    storage.set_defaults(command=None, parser=storage)
    adopt = commands.add_parser(
        "adopt",
        help="plan, show and undo the adoption of a cluster's definitions",
        usage="aggserver adopt COMMAND [OPTION...]",
        description="Look at a cluster before its definitions are adopted, show what is adopted, and give it back.",
        allow_abbrev=False,
    )
    adopt.set_defaults(command=None, parser=adopt)
    groups = {
        "storage": storage.add_subparsers(dest="command", metavar="COMMAND"),
        "adopt": adopt.add_subparsers(dest="command", metavar="COMMAND"),
    }
    for command, text in COMMANDS.items():
        group, _, name = ("", "", command) if command == _USER else command.rpartition(" ")
        sub = groups.get(group, commands).add_parser(
            name,
            help=text,
            usage=f"aggserver {command} [OPTION...]{_arguments(command)}",
            description=text[0].upper() + text[1:] + ".",
            epilog=_epilog(command),
            allow_abbrev=False,
        )
        sub.set_defaults(command=command)
        _add_flags(sub, command)
    return parser


def _arguments(command: str) -> str:
    named = [flag for flag in FLAGS.values() if flag.positional and command in flag.commands]
    behind = " [-- COMMAND [ARGUMENT...]]" if command == "dev" else ""
    shown = {flag.metavar: "..." if flag.convert in convert.REPEATED else "" for flag in named}
    return "".join(f" [{f.metavar}{shown[f.metavar]}]" if f.optional else f" {f.metavar}" for f in named) + behind


def _epilog(command: str) -> str:
    if command in _WITHOUT_OPTIONS:
        return _COMPLETION_HELP if command in COMPLETION else ""
    return (_DEV_HELP if command == "dev" else "") + (
        f"Every option is also an environment variable (--secure-port: {PREFIX}SECURE_PORT) and a key of the --config file "
        "(secure-port). A flag wins over a variable, a variable over the file. Durations are written as 10s, 1m30s, 1h."
    )


def _add_flags(parser: argparse.ArgumentParser, command: str) -> None:
    if command not in _WITHOUT_OPTIONS:
        parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="YAML file with options")
    more: dict[str, Any]
    groups: dict[str, Any] = {}
    for name, flag in FLAGS.items():
        if command not in flag.commands:
            continue
        if flag.positional:
            number = "*" if flag.convert in convert.REPEATED else "?"
            more = {"nargs": number, "default": argparse.SUPPRESS} if flag.optional else {}
            parser.add_argument(name, metavar=flag.metavar, help=flag.text, **more)
            continue
        group = groups.get(flag.group) or groups.setdefault(flag.group, parser.add_argument_group(flag.group))
        names = [flag.short, f"--{flag.name}"] if flag.short else [f"--{flag.name}"]
        more = {"metavar": flag.metavar}
        if flag.convert is convert.boolean:
            # As in Go's flag package: --flag or --flag=false.
            more = {"metavar": "true|false", "nargs": "?", "const": "true"}
        elif flag.convert in convert.REPEATED:
            more["action"] = "append"
        default = flag.dev if command in _LIKE_DEV and flag.dev is not None else _DEFAULTS[name]
        group.add_argument(*names, dest=name, default=argparse.SUPPRESS, help=flag.text + _shown(default, flag), **more)


def _shown(default: Any, flag: Flag) -> str:
    """The default as the user would write it, for the help text."""
    if default is None or default in ("", ()):
        return ""
    if flag.convert is convert.seconds:
        default = f"{default:g}s"
    elif isinstance(default, tuple):
        default = ",".join(default)
    elif isinstance(default, bool):
        default = str(default).lower()
    return f" (default: {default})".replace("%", "%%")
