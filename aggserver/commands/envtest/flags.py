"""Maps flags of kube-apiserver to options of `aggserver dev`. Pure.

The syntax is that of github.com/spf13/pflag, with which kube-apiserver reads its flags: `--name=value`, `--name value`, `-v=2`.
kube-apiserver takes no other arguments, so that a word behind a flag without `=` is that flag's value.
Source: kube-apiserver --help, v1.36.3; sigs.k8s.io/controller-runtime pkg/internal/testing/controlplane for what envtest passes.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aggserver.options import ADMISSION_PLUGINS, AUTHORIZATION_MODES

__all__ = ["KNOWN", "GivenFlags", "read"]

# Flags of kube-apiserver that `aggserver dev` has by the same name and with the same meaning.
SAME = frozenset(
    {
        "admission-control-config-file",
        "anonymous-auth",
        "api-audiences",
        "audit-log-compress",
        "audit-log-format",
        "audit-log-maxage",
        "audit-log-maxbackup",
        "audit-log-maxsize",
        "audit-log-mode",
        "audit-log-path",
        "audit-policy-file",
        "audit-webhook-config-file",
        "audit-webhook-mode",
        "bind-address",
        "client-ca-file",
        "max-mutating-requests-inflight",
        "max-requests-inflight",
        "request-timeout",
        "secure-port",
        "service-account-issuer",
        "service-account-key-file",
        "service-account-max-token-expiration",
        "service-account-signing-key-file",
        "service-cluster-ip-range",
        "tls-cert-file",
        "tls-cipher-suites",
        "tls-min-version",
        "tls-private-key-file",
    }
)
# Further flags of that kind, which are of use only with a real etcd.
_OF_ETCD = frozenset({"etcd-cafile", "etcd-certfile", "etcd-keyfile", "etcd-prefix"})
# Flags whose value is a list, and the members of it that are known here.
_LISTS: Mapping[str, Collection[str]] = {
    "authorization-mode": AUTHORIZATION_MODES,
    "disable-admission-plugins": ADMISSION_PLUGINS,
    "enable-admission-plugins": ADMISSION_PLUGINS,
}
# Flags that ask for what is always so here.
_MET = frozenset({"allow-privileged"})
_READ_HERE = frozenset({"cert-dir", "etcd-servers"})

KNOWN = SAME | _OF_ETCD | {*_LISTS} | _MET | _READ_HERE
"""The flags that have an effect, or need none. All others are accepted, and named in the log."""


@dataclass(frozen=True, slots=True)
class GivenFlags:
    """The flags of one command line.

    options: arguments of `aggserver dev`. etcd_options: further ones, for a real etcd. etcd_servers: URLs, not
    checked. cert_dir: a folder, or "" without the flag. without_effect: other flags as they were given, and admission
    plugins and modes of authorization with the flag that names them, in their order.
    """

    options: tuple[str, ...]
    etcd_options: tuple[str, ...]
    etcd_servers: tuple[str, ...]
    cert_dir: str
    without_effect: tuple[str, ...]

    def names(self, flag: str) -> bool:
        """Whether a flag is among the options."""
        return any(option.startswith(f"--{flag}=") for option in self.options)


def read(arguments: Sequence[str]) -> GivenFlags:
    """Read a command line. Never fails: unknown flags and stray words are among those without effect."""
    options: list[str] = []
    etcd_options: list[str] = []
    etcd_servers: list[str] = []
    cert_dir = ""
    without_effect: dict[str, None] = {}
    for name, value in _flags(arguments):
        if name in SAME:
            options.append(f"--{name}={value}")
        elif name in _OF_ETCD:
            etcd_options.append(f"--{name}={value}")
        elif name in _LISTS:
            there, others = _parted(value.split(","), _LISTS[name])
            if there:
                options.append(f"--{name}={','.join(there)}")
            if others and name != "disable-admission-plugins":
                without_effect[f"--{name}={','.join(others)}"] = None
        elif name == "etcd-servers":
            etcd_servers += filter(None, value.split(","))
        elif name == "cert-dir":
            cert_dir = value
        elif not name:
            without_effect[shlex.quote(value)] = None
        elif name not in _MET:
            without_effect[f"{'--' if len(name) > 1 else '-'}{name}={shlex.quote(value)}"] = None
    return GivenFlags(tuple(options), tuple(etcd_options), tuple(etcd_servers), cert_dir, tuple(without_effect))


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name and value of each flag, ("", word) for a stray word. A flag without a value gets `true`, as a boolean flag."""
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-"):
            yield "", word
        elif equals:
            yield name, value
        else:
            yield name, words.pop(0) if words and not words[0].startswith("-") else "true"


def _parted(names: Sequence[str], known: Collection[str]) -> tuple[list[str], list[str]]:
    names = [name for name in names if name]
    return [name for name in names if name in known], [name for name in names if name not in known]
