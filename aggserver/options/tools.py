"""The commands that need no server, such as `aggserver cel` and `aggserver convert`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aggserver.options import convert, flag
from aggserver.options.commands import ADOPT, BOTH, CEL, COMPLETION, CONVERT, DOCTOR, ENVTEST, NEW, SCHEMA
from aggserver.options.flag import option

__all__ = ["ToolOptions"]

OUTPUTS = ("text", "json")

SHELLS = ("bash", "zsh", "fish")


# ruff: noqa: RUF009  -- option calls dataclasses.field, so its result is a valid default
@dataclass(frozen=True, kw_only=True)
class ToolOptions:
    """Fields of Options; see the help of each."""

    rules_see_labels: bool = option(
        False,
        "rules-see-labels",
        convert.boolean,
        flag.RULES,
        "let x-kubernetes-validations rules read labels and annotations, which kube-apiserver hides from them",
        commands=BOTH | CEL,
    )
    rules_budget: int = option(
        1,
        "rules-budget",
        convert.positive,
        flag.RULES,
        "factor on every CEL cost limit; 1 is kube-apiserver's limits",
        metavar="FACTOR",
        commands=BOTH | CEL | CONVERT,
    )
    expression: str = option(
        "",
        "expression",
        convert.text,
        flag.RULES,
        "CEL expression to check and evaluate (default: all rules of --definition)",
        metavar="EXPRESSION",
        commands=CEL,
        positional=True,
        optional=True,
    )
    definition_file: Path | None = option(
        None,
        "definition",
        convert.path,
        flag.RULES,
        "file with the CustomResourceDefinition; - is standard input, here and for the objects",
        metavar="FILE",
        commands=CEL | CONVERT,
        short="-f",
    )
    definition_version: str = option(
        "",
        "version",
        convert.text,
        flag.RULES,
        "version of the definition to use (default: the object's, or else the storage version)",
        metavar="VERSION",
        commands=CEL,
    )
    at: str = option(
        ".",
        "at",
        convert.text,
        flag.RULES,
        "location of self in the schema; .spec.items[] is each item of a list or value of a map",
        metavar="PLACE",
        commands=CEL,
    )
    object_file: Path | None = option(
        None,
        "object",
        convert.path,
        flag.RULES,
        "file with the object; self is this object or, with --at, a part of it",
        metavar="FILE",
        commands=CEL,
    )
    old_object_file: Path | None = option(
        None,
        "old-object",
        convert.path,
        flag.RULES,
        "file with the object before the update, for oldSelf",
        metavar="FILE",
        commands=CEL,
    )
    to: str = option(
        "", "to", convert.text, flag.CONVERSION, "version to convert the objects to", metavar="VERSION", commands=CONVERT
    )
    check: bool = option(
        False,
        "check",
        convert.boolean,
        flag.CONVERSION,
        "check the conversion rules: types, costs, and what does not come back when generated objects are converted both ways",
        commands=CONVERT,
    )
    objects_file: Path | None = option(
        None,
        "objects",
        convert.path,
        flag.CONVERSION,
        "file with the objects to convert, in any versions",
        metavar="OBJECTS",
        commands=CONVERT,
        positional=True,
        optional=True,
    )
    project: str = option(
        "",
        "project",
        convert.text,
        "",
        "folder to make, whose name is that of the module, too",
        metavar="NAME",
        commands=NEW,
        positional=True,
    )
    assets: Path | None = option(
        None,
        "assets",
        convert.path,
        "",
        "folder to write the programs to, for KUBEBUILDER_ASSETS; made if it is not there",
        metavar="DIR",
        commands=ENVTEST,
        positional=True,
    )
    type_name: str = option(
        "",
        "type",
        convert.text,
        "",
        "module and class, such as shop:Site; the module is looked for in this folder first",
        metavar="MODULE:TYPE",
        commands=SCHEMA,
        positional=True,
    )
    shell: str = option(
        "",
        "shell",
        convert.one_of(*SHELLS),
        "",
        f"one of {', '.join(SHELLS)}",
        metavar="SHELL",
        commands=COMPLETION,
        positional=True,
    )
    output: str = option(
        "text",
        "output",
        convert.one_of(*OUTPUTS),
        flag.RULES,
        f"output format: {', '.join(OUTPUTS)}",
        metavar="FORMAT",
        commands=CEL | CONVERT | SCHEMA | ADOPT | DOCTOR,
        short="-o",
    )
