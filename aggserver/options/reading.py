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

from aggserver.options import convert
from aggserver.options.checks import OptionsError, check
from aggserver.options.commands import COMMANDS, COMPLETION
from aggserver.options.flag import PREFIX, Flag
from aggserver.options.shown import written
from aggserver.options.table import FLAGS, WITH_COMMAND, Options

__all__ = ["parse"]

# Environment variables that the kubelet adds to every container for a Service named aggserver or aggserver-*. They look like
# options but are not, so they are ignored.
SERVICE_LINK = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")

# Commands that use only their arguments; they ignore variables and the configuration file.
_WITHOUT_OPTIONS = COMPLETION | {"version"}

# Commands whose options have the defaults of `aggserver dev`.
_USER = "dev user"
_LIKE_DEV = ("dev", _USER)

_DEFAULTS = {one.name: one.default for one in dataclasses.fields(Options)}


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
    check(options)
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
    """The default, for the help text."""
    if default is None or default in ("", ()):
        return ""
    return f" (default: {written(default, flag)})".replace("%", "%%")
