"""The commands of `aggserver`, and the sets of them that share options."""

from __future__ import annotations

__all__ = [
    "ADOPT",
    "ADOPTING",
    "ASK",
    "BOTH",
    "CEL",
    "CHECKED",
    "COMMANDS",
    "COMPLETION",
    "CONVERT",
    "DEV",
    "DEV_USER",
    "DOCTOR",
    "ENVTEST",
    "MANIFESTS",
    "NEW",
    "PLAN",
    "SCHEMA",
    "SERVE",
    "STORAGE",
]

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
    "doctor": "find out why a cluster's APIServices are unavailable, or nothing moves, and say what mends it",
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
NEW, MANIFESTS, DOCTOR = frozenset({"new"}), frozenset({"manifests"}), frozenset({"doctor"})
BOTH = SERVE | DEV
# Commands that read and write the cluster's own etcd.
ADOPTING = SERVE | {"adopt release"}
ADOPT = frozenset(command for command in COMMANDS if command.startswith("adopt "))
PLAN, ASK = frozenset({"adopt plan"}), frozenset({"adopt release", "adopt cleanup"})
CHECKED = BOTH | {"storage check", "storage migrate"}
