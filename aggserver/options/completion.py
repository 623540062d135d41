"""Completion: scripts with which bash, zsh and fish complete the commands and options of `aggserver`.

Each script is generated from the table of options and contains everything it needs: starting a program at every press of the Tab
key would be slow. Options that take a file or a folder complete those; options with a fixed set of values complete the values.
After `aggserver dev --`, the shell completes the command to run as it does elsewhere.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from aggserver.options import convert
from aggserver.options.commands import COMMANDS
from aggserver.options.flag import Flag
from aggserver.options.table import FLAGS

__all__ = ["script"]

_FILE, _FOLDER = "FILE", "DIR"

# The commands that need a subcommand, and their help.
_PARENTS = {
    "adopt": "plan, show and undo the adoption of a cluster's definitions",
    "storage": "check, repair, back up, restore and compact a store",
}


def script(shell: str) -> str:
    """The completion script for `shell`: bash, zsh or fish."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


# --- the table of options ---


def _flags(command: str) -> list[Flag]:
    return [flag for flag in FLAGS.values() if command in flag.commands and not flag.positional]


def _names(flag: Flag) -> list[str]:
    return [*([flag.short] if flag.short else []), f"--{flag.name}"]


def _choices(flag: Flag) -> tuple[str, ...]:
    return flag.convert.choices if isinstance(flag.convert, convert.OneOf) else ()


def _has_value(flag: Flag) -> bool:
    """Whether the next word is the flag's value. The value of a boolean flag is not a word of its own: --flag or --flag=false."""
    return flag.convert is not convert.boolean


def _positional(command: str) -> Flag | None:
    return next((flag for flag in FLAGS.values() if command in flag.commands and flag.positional), None)


def _below(command: str) -> list[tuple[str, str]]:
    """Subcommands of `command` ('' for the top level) and their help."""
    found = {}
    for name, text in COMMANDS.items():
        above, _, last = name.rpartition(" ")
        if above == command:
            found[last] = text
        elif not command and above not in found:
            found[above] = _PARENTS[above]
    return list(found.items())


def _parents() -> list[str]:
    return [name for name, _ in _below("") if name not in COMMANDS]


def _subcommands(command: str) -> list[tuple[str, str]]:
    """The subcommands, with their help, of a command that also works without a subcommand, as `dev` does without `user`."""
    return _below(command) if command in COMMANDS else []


def _first_sentence(text: str) -> str:
    return text.partition("; ")[0]


# --- bash ---

_BASH = """\
# bash completion of aggserver. To have it in this shell: source <(aggserver completion bash)
_aggserver() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= words= at
    if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        if [[ ${COMP_WORDS[at]} == -- ]]; then
            if declare -F _command_offset > /dev/null; then _command_offset $((at + 1)); else compopt -o default; fi
            return
        fi
    done
    case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
@nested@
        *) command=${COMP_WORDS[1]} ;;
    esac
    [[ $COMP_CWORD == 1 ]] && command=
    case "$command $before" in
@values@
    esac
    case "$command" in
@words@
    esac
    compopt -o nosort 2> /dev/null
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [[ $word == -* || ${#COMPREPLY[@]} -gt 0 ]] || compopt -o default
}
complete -F _aggserver aggserver"""


def _bash() -> str:
    nested = [f'        "{name}"*) command="{name}" ;;' for name in COMMANDS if " " in name]
    values = [line for command in COMMANDS for line in _bash_values(command)]
    words = [f"        '') words='{' '.join([*(name for name, _ in _below('')), '--help', '--version'])}' ;;"]
    words += [f"        {parent}) words='{' '.join(name for name, _ in _below(parent))} --help' ;;" for parent in _parents()]
    words += [f"        '{command}') words='{' '.join(_bash_words(command))}' ;;" for command in COMMANDS]
    text = _BASH.replace("@nested@", "\n".join(nested)).replace("@values@", "\n".join(values))
    return text.replace("@words@", "\n".join(words))


def _bash_words(command: str) -> Iterator[str]:
    if positional := _positional(command):
        yield from _choices(positional)
    for name, _ in _subcommands(command):
        yield name
    for flag in _flags(command):
        yield from _names(flag)
    if _flags(command):
        yield "--config"
    yield "--help"


def _bash_values(command: str) -> Iterator[str]:
    """Cases that complete the value of an option. An option with arbitrary values gets no completion."""
    actions: dict[str, list[str]] = {"compopt -o default": ["--config"]} if _flags(command) else {}
    for flag in filter(_has_value, _flags(command)):
        if choices := _choices(flag):
            action = f"COMPREPLY=($(compgen -W '{' '.join(choices)}' -- \"$word\"))"
        elif flag.metavar == _FOLDER:
            action = 'compopt -o filenames; COMPREPLY=($(compgen -d -- "$word"))'
        elif flag.metavar == _FILE:
            action = "compopt -o default"
        else:
            action = ":"
        actions.setdefault(action, []).extend(_names(flag))
    for action, names in actions.items():
        yield f"        {'|'.join(shlex.quote(f'{command} {name}') for name in names)}) {action}; return ;;"


# --- zsh ---

_ZSH = """\
#compdef aggserver
# zsh completion of aggserver. To have it in this shell, after compinit: source <(aggserver completion zsh)
@functions@
if [[ $funcstack[1] == _aggserver ]]; then _aggserver "$@"; else compdef _aggserver aggserver; fi"""

# Completes a command and its arguments. @general@ are options that can stand in place of a command.
_ZSH_FUNCTION = """\
@name@() {
    local context state state_descr line
    typeset -A opt_args
    _arguments -C @general@ '1:command:->command' '*::argument:->argument'
    case $state in
        command)
            local -a commands=(
@commands@
            )
            _describe command commands
            ;;
        argument)
            case $line[1] in
@cases@
            esac
            ;;
    esac
}"""

_ZSH_HELP = shlex.quote("(- *)--help[show help]")
_ZSH_VERSION = shlex.quote("(- *)--version[print the version]")

_ZSH_AFTER_DASHES = """\
                    local -i dashes=${words[(i)--]}
                    if (( CURRENT > dashes )); then
                        shift $dashes words
                        (( CURRENT -= dashes ))
                        _normal
                        return
                    fi
"""


def _zsh() -> str:
    cases = [_zsh_case(command) for command, _ in _below("") if command in COMMANDS]
    cases += [f"                {parent}) _aggserver_{parent} ;;" for parent in _parents()]
    functions = [_zsh_function("_aggserver", f"{_ZSH_HELP} {_ZSH_VERSION}", "", cases)]
    for parent in _parents():
        cases = [_zsh_case(f"{parent} {name}") for name, _ in _below(parent)]
        functions.append(_zsh_function(f"_aggserver_{parent}", _ZSH_HELP, parent, cases))
    return _ZSH.replace("@functions@", "\n".join(functions))


def _zsh_function(name: str, general: str, command: str, cases: Sequence[str]) -> str:
    described = [f"                {shlex.quote(f'{below}:{what}')}" for below, what in _below(command)]
    text = _ZSH_FUNCTION.replace("@name@", name).replace("@general@", general)
    return text.replace("@commands@", "\n".join(described)).replace("@cases@", "\n".join(cases))


_ZSH_SUBCOMMAND = """\
                    if [[ $words[2] == @name@ ]] && (( CURRENT > 2 )); then
                        shift words
                        (( CURRENT -= 1 ))
                        _arguments -s@specs@
                        return
                    fi
"""


def _zsh_case(command: str) -> str:
    blank = " " * 16
    before = _ZSH_AFTER_DASHES if command == "dev" else ""
    for name, _ in _subcommands(command):
        before += _ZSH_SUBCOMMAND.replace("@name@", name).replace(
            "@specs@", _zsh_specs(f"{command} {name}", f"{blank}            ")
        )
    specs = _zsh_specs(command, f"{blank}        ")
    return f"{blank}{command.rpartition(' ')[2]})\n{before}{blank}    _arguments -s{specs}\n{blank}    ;;"


def _zsh_specs(command: str, indent: str) -> str:
    """The arguments of `_arguments`, one on each line."""
    specs = [spec for flag in _flags(command) for spec in _zsh_options(flag)]
    if _flags(command):
        specs.append(shlex.quote("--config=[YAML file with options]:FILE:_files"))
    specs.append(_ZSH_HELP)
    if positional := _positional(command):
        specs.append(shlex.quote(f"1:{positional.metavar}:{_zsh_action(positional)}"))
    if names := [name for name, _ in _subcommands(command)]:
        specs.append(shlex.quote(f"1:COMMAND:({' '.join(names)})"))
    return "".join(f" \\\n{indent}{spec}" for spec in specs)


def _zsh_options(flag: Flag) -> Iterator[str]:
    text = _first_sentence(flag.text).replace("[", "(").replace("]", ")").replace(":", " -")
    repeated = "*" if flag.convert in convert.REPEATED else ""
    for name in _names(flag):
        if not _has_value(flag):
            yield shlex.quote(f"{name}[{text}]")
        else:
            equals = "=" if name.startswith("--") else "+"
            yield shlex.quote(f"{repeated}{name}{equals}[{text}]:{flag.metavar}:{_zsh_action(flag)}")


def _zsh_action(flag: Flag) -> str:
    if choices := _choices(flag):
        return f"({' '.join(choices)})"
    return {_FILE: "_files", _FOLDER: "_files -/"}.get(flag.metavar, " ")


# --- fish ---


def _fish() -> str:
    lines = [
        "# fish completion of aggserver. To have it in this shell: aggserver completion fish | source",
        "function __aggserver_is",
        "    set -l words (commandline -opc | string match -v -- '-*')",
        "    set -l last (math (count $argv) + 1)",
        '    test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"',
        "end",
        "complete -c aggserver -f",
        "complete -c aggserver -l help -d 'show help'",
        "complete -c aggserver -n __fish_use_subcommand -l version -d 'print the version'",
    ]
    for name, text in _below(""):
        lines.append(f"complete -c aggserver -n __fish_use_subcommand -a {name} -d {_fish_quote(text)}")
    for parent in _parents():
        names = " ".join(name for name, _ in _below(parent))
        where = _fish_quote(f"__aggserver_is {parent}; and not __fish_seen_subcommand_from {names}")
        lines += [f"complete -c aggserver -n {where} -a {name} -d {_fish_quote(text)}" for name, text in _below(parent)]
    for command in COMMANDS:
        lines += _fish_command(command)
    return "\n".join(lines)


def _fish_command(command: str) -> Iterator[str]:
    names = " ".join(name for name, _ in _subcommands(command))
    where = f"__aggserver_is {command}" + (f"; and not __fish_seen_subcommand_from {names}" if names else "")
    start = f"complete -c aggserver -n {_fish_quote(where)}"
    for name, text in _subcommands(command):
        yield f"{start} -a {name} -d {_fish_quote(text)}"
    if positional := _positional(command):
        yield f"{start}{_fish_value(positional, required=False)}"
    if command == "dev":
        rest = "(complete -C (commandline -cp | string replace -r '^.*? -- ' ''))"
        yield f'complete -c aggserver -n "contains -- -- (commandline -opc)" -a "{rest}"'
    for flag in _flags(command):
        short = f" -s {flag.short[1:]}" if flag.short else ""
        value = _fish_value(flag, required=True) if _has_value(flag) else ""
        yield f"{start}{short} -l {flag.name}{value} -d {_fish_quote(_first_sentence(flag.text))}"
    if _flags(command):
        yield f"{start} -l config -rF -d 'YAML file with options'"


def _fish_value(flag: Flag, *, required: bool) -> str:
    """The arguments of `complete` for a flag's value. -x: requires a value, and does not complete files."""
    if flag.metavar == _FILE:
        return " -rF" if required else " -F"
    exclusive = " -x" if required else ""
    if choices := _choices(flag):
        return f"{exclusive} -a {_fish_quote(' '.join(choices))}"
    return f"{exclusive} -a '(__fish_complete_directories)'" if flag.metavar == _FOLDER else exclusive


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
