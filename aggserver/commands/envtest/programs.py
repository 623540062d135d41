"""The text of the programs that replace envtest's. Pure.

Each is a shell script that executes the Python and the aggserver that wrote it: no environment has to be active, and neither need
be on PATH. The script itself answers `--help`, with which envtest calls it before each start, since that is quicker.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MARK", "Origin", "texts"]

MARK = "# Written by `aggserver envtest`."
"""A line near the beginning of each program, by which it is recognized."""

# It skips each kubectl with MARK in it, so that two folders of stand-ins on PATH don't call each other for ever.
_KUBECTL = """\
# The real kubectl, the first one on PATH that is no stand-in. A kubectl speaks to aggserver as to any API server.
IFS=:
for folder in $PATH; do
    program=${folder:-.}/kubectl
    if [ -f "$program" ] && [ -x "$program" ] && ! head -c 200 "$program" | grep -aqF "$mark"; then
        unset IFS
        exec "$program" "$@"
    fi
done
echo 'kubectl: PATH has none. https://kubernetes.io/docs/tasks/tools/ says how to install it.' >&2
exit 127
"""

_HELP = """\
case " $* " in *' --help '*|*' -h '*)
    cat <<'END'
{text}
END
    exit 0
esac
"""


@dataclass(frozen=True, slots=True)
class Origin:
    """The Python and the aggserver that the programs run.

    root: the folder to find aggserver in, or None if this Python finds it by itself.
    etcd: the file that etcd's stand-in runs.
    """

    python: Path
    etcd: Path
    root: Path | None


def texts(origin: Origin, version: str, kubernetes: str, flags: Iterable[str]) -> Mapping[str, str]:
    """The text of each program, by its name.

    version: aggserver's. kubernetes: the version of kube-apiserver, such as `v1.36.3`. flags: those of kube-apiserver known here.
    """
    about = f"aggserver {version} in the place of"
    python = shlex.quote(str(origin.python))
    apiserver = f'exec {python} -P -m aggserver kube-apiserver "$@"\n'
    if origin.root is not None:
        path = f"PYTHONPATH={shlex.quote(str(origin.root))}${{PYTHONPATH:+:$PYTHONPATH}}\nexport PYTHONPATH\n"
        apiserver = path + apiserver
    known = "\n".join(f"      --{flag}" for flag in sorted(flags))
    help_text = f"{about} kube-apiserver. These flags have an effect; all others are accepted, and named in the log.\n\n{known}"
    versions = f"case \"$1\" in --version) echo 'Kubernetes {kubernetes}'; exit 0; esac\n"
    etcd = f'exec {python} -I -S {shlex.quote(str(origin.etcd))} "$@"\n'
    bodies = {
        "kube-apiserver": _HELP.format(text=help_text) + versions + apiserver,
        "etcd": _HELP.format(text=f"{about} etcd. It stores nothing: kube-apiserver does, in the folder of --data-dir.") + etcd,
        "kubectl": f"mark={shlex.quote(MARK)}\n{_KUBECTL}",
    }
    return {name: f"#!/bin/sh\n{MARK}\n{body}" for name, body in bodies.items()}
