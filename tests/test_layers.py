"""The import contract: who may import whom, which package is the only door to a library, and what pure code may not know.

Read from the sources by `ast`, so that imports inside functions and under TYPE_CHECKING count too, and nothing is run. To break a
rule, move the code, or add a line with its reason to EXCEPTIONS.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# From left to right: a module may import those after it; names of one row do not know each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("cli", "testing"),
    ("app", "commands"),
    ("input_files",),
    ("adoption",),
    ("server", "monitoring", "debugging", "certificates", "standalone"),
    ("controllers",),
    ("resources",),
    ("admissionregistration", "apiextensions", "kinds"),
    ("informers",),
    ("endpoints",),
    ("audit",),
    ("admission", "authorization", "registry"),
    ("authentication", "conversion"),
    ("storage", "cluster", "webhook", "workers"),
    ("publish", "merge", "typed"),
    ("schema",),
    ("cel", "scheme", "tracing"),
    ("meta", "disk"),
    ("errors",),
)

# Outside of the layers: the root's names are for users (only the edge may ask it for __version__), and options are turned into
# plain values before they go down.
IMPORTERS = {
    "aggserver": ("aggserver.cli", "aggserver.app"),
    "aggserver.options": (
        "aggserver.cli",
        "aggserver.app",
        "aggserver.commands",
    ),
}

# Library -> the only modules or packages that may import it. Its exceptions and types become ours there.
DOORS = {
    "aiohttp": ("aggserver.cluster", "aggserver.webhook.client"),
    "argparse": ("aggserver.options",),
    "attr": ("aggserver.typed.attrs_door",),
    "cryptography": ("aggserver.certificates", "aggserver.authentication.jws", "aggserver.authentication.x509"),
    "grpc": ("aggserver.storage.etcd_client",),
    "hypercorn": ("aggserver.server",),
    "jh2": ("aggserver.server.http2.header_block",),
    "kubernetes": ("aggserver.cluster", "aggserver.testing.plugin"),
    "re2": ("aggserver.meta.regexp",),
    "msgspec": ("aggserver.typed.msgspec_door",),
    "opentelemetry": ("aggserver.tracing.export",),
    "prometheus_client": ("aggserver.monitoring",),
    "pydantic": ("aggserver.typed.pydantic_door",),
    "pydantic_core": ("aggserver.typed.pydantic_door",),
    "sqlite3": (
        "aggserver.storage.sqlite",
        "aggserver.storage.sqlite_file",
        "aggserver.storage.sqlite_history",
        "aggserver.storage.sqlite_maintenance",
        "aggserver.storage.sqlite_repair",
        "aggserver.storage.sqlite_writer",
    ),
    "starlette": ("aggserver.monitoring.routes",),
    "wsproto": ("aggserver.server.websocket",),
    "yaml": ("aggserver.meta.yaml_text",),
}

PURE = (
    "aggserver.adoption.switch.api_services",
    "aggserver.certificates.inspection",
    "aggserver.commands.doctor.access",
    "aggserver.commands.doctor.arguments",
    "aggserver.commands.doctor.finding",
    "aggserver.commands.doctor.found",
    "aggserver.commands.doctor.moves",
    "aggserver.commands.doctor.pods",
    "aggserver.commands.doctor.reach",
    "aggserver.commands.doctor.report",
    "aggserver.commands.doctor.rights",
    "aggserver.commands.doctor.trust",
    "aggserver.commands.adopt.follow",
    "aggserver.commands.adopt.holder",
    "aggserver.commands.adopt.plan",
    "aggserver.commands.adopt.report",
    "aggserver.adoption.families",
    "aggserver.adoption.leftovers.version",
    "aggserver.adoption.records.record",
    "aggserver.adoption.steps",
    "aggserver.meta",
    "aggserver.resources.revisions",
    "aggserver.cel",
    "aggserver.schema",
    "aggserver.scheme",
    "aggserver.merge",
    "aggserver.publish",
    "aggserver.commands.manifests.objects",
    "aggserver.commands.manifests.roles",
    "aggserver.commands.new.project",
    "aggserver.commands.cel.places",
    "aggserver.commands.cel.report",
    "aggserver.admission.matching",
    "aggserver.admission.quota",
    "aggserver.admissionregistration.bindings",
    "aggserver.admissionregistration.defaults",
    "aggserver.admissionregistration.expressions",
    "aggserver.admissionregistration.matching",
    "aggserver.admissionregistration.policies",
    "aggserver.admissionregistration.status",
    "aggserver.admissionregistration.strategy",
    "aggserver.admissionregistration.webhooks",
    "aggserver.admission.patching",
    "aggserver.admission.review",
    "aggserver.admission.webhook_configurations",
    "aggserver.apiextensions.api_service",
    "aggserver.audit.events",
    "aggserver.audit.policy",
    "aggserver.apiextensions.claims",
    "aggserver.apiextensions.conditions",
    "aggserver.apiextensions.content",
    "aggserver.apiextensions.conversion_annotation",
    "aggserver.apiextensions.conversion_rules",
    "aggserver.apiextensions.definition",
    "aggserver.apiextensions.manifest",
    "aggserver.apiextensions.schema_rules",
    "aggserver.apiextensions.strategy",
    "aggserver.apiextensions.v1beta1",
    "aggserver.apiextensions.validation",
    "aggserver.apiextensions.version_rules",
    "aggserver.resources.events",
    "aggserver.resources.kept",
    "aggserver.resources.needs",
    "aggserver.resources.partial",
    "aggserver.resources.round_trips",
    "aggserver.webhook.ca_bundle",
    "aggserver.webhook.client_config",
    "aggserver.commands.convert.report",
    "aggserver.commands.envtest.flags",
    "aggserver.commands.envtest.programs",
    "aggserver.conversion.field_path",
    "aggserver.conversion.needed_fields",
    "aggserver.conversion.round_trips",
    "aggserver.conversion.rule_compilation",
    "aggserver.conversion.rule_types",
    "aggserver.conversion.rules",
    "aggserver.conversion.rules_converter",
    "aggserver.admission.policy.conditions",
    "aggserver.admission.policy.environment",
    "aggserver.admission.policy.expressions",
    "aggserver.admission.policy.hooks",
    "aggserver.admission.policy.mutating",
    "aggserver.admission.policy.patches",
    "aggserver.admission.policy.type_checking",
    "aggserver.admission.policy.validating",
    "aggserver.kinds.cells",
    "aggserver.kinds.columns",
    "aggserver.kinds.creation",
    "aggserver.kinds.default_rules",
    "aggserver.kinds.default_values",
    "aggserver.kinds.defaults",
    "aggserver.kinds.network_cells",
    "aggserver.kinds.pod_cells",
    "aggserver.kinds.rbac_validation",
    "aggserver.kinds.references",
    "aggserver.kinds.quota_rules",
    "aggserver.kinds.quota_usage",
    "aggserver.kinds.resource_names",
    "aggserver.kinds.resources",
    "aggserver.kinds.secrets",
    "aggserver.kinds.signing_requests",
    "aggserver.kinds.addresses",
    "aggserver.kinds.autoscalers",
    "aggserver.kinds.behaviours",
    "aggserver.kinds.catalog",
    "aggserver.kinds.claim_updates",
    "aggserver.kinds.immutable",
    "aggserver.kinds.ingress_rules",
    "aggserver.kinds.job_updates",
    "aggserver.kinds.jobs",
    "aggserver.kinds.kind_rules",
    "aggserver.kinds.flow_control",
    "aggserver.kinds.limit_range_rules",
    "aggserver.kinds.plugins.additions",
    "aggserver.kinds.plugins.pod_resize",
    "aggserver.kinds.plugins.pod_security_levels",
    "aggserver.kinds.plugins.runtime_classes",
    "aggserver.kinds.network_ranges",
    "aggserver.kinds.pod_rules.claims",
    "aggserver.kinds.pod_rules.containers",
    "aggserver.kinds.pod_rules.environment",
    "aggserver.kinds.pod_rules.probes",
    "aggserver.kinds.pod_rules.ratchet",
    "aggserver.kinds.pod_rules.requirements",
    "aggserver.kinds.pod_rules.scheduling",
    "aggserver.kinds.pod_rules.security",
    "aggserver.kinds.pod_rules.spec",
    "aggserver.kinds.pod_rules.texts",
    "aggserver.kinds.pod_rules.volumes",
    "aggserver.kinds.pod_rules.workloads",
    "aggserver.kinds.pod_updates",
    "aggserver.kinds.priorities",
    "aggserver.kinds.seeds",
    "aggserver.kinds.service_rules",
    "aggserver.kinds.storage_rules",
    "aggserver.kinds.tolerations",
    "aggserver.kinds.fields",
    "aggserver.kinds.strategy",
    "aggserver.kinds.versions",
    "aggserver.kinds.warnings",
    "aggserver.registry.custom_resource",
    "aggserver.registry.deletion",
    "aggserver.registry.nested",
    "aggserver.registry.own_kinds",
    "aggserver.registry.preparation",
    "aggserver.registry.selection",
    "aggserver.registry.sharding",
    "aggserver.registry.stored",
    "aggserver.endpoints.handlers.options",
    "aggserver.authentication.requestheader",
    "aggserver.authentication.service_accounts",
    "aggserver.authentication.user",
    "aggserver.authentication.x509",
    "aggserver.authorization.aggregation",
    "aggserver.authorization.attributes",
    "aggserver.authorization.bootstrap",
    "aggserver.authorization.escalation",
    "aggserver.authorization.node_graph",
    "aggserver.authorization.rbac",
    "aggserver.endpoints.field_manager",
    "aggserver.endpoints.flow_control.dumps",
    "aggserver.endpoints.flow_control.levels",
    "aggserver.endpoints.flow_control.limits",
    "aggserver.endpoints.flow_control.matching",
    "aggserver.endpoints.flow_control.retry_after",
    "aggserver.endpoints.flow_control.shuffle_sharding",
    "aggserver.endpoints.flow_control.work",
    "aggserver.endpoints.request_info",
    "aggserver.server.http2.allowance",
    "aggserver.server.http2.frames",
    "aggserver.server.http2.header_block",
    "aggserver.server.http2.protocol",
    "aggserver.server.http2.request_head",
    "aggserver.storage.checksums",
    "aggserver.standalone.access_reviews",
    "aggserver.controllers.garbage.decisions",
    "aggserver.standalone.kubeconfig",
    "aggserver.controllers.namespaces.conditions",
    "aggserver.controllers.garbage.graph_builder",
    "aggserver.controllers.garbage.owner_graph",
    "aggserver.controllers.disruption_status",
    "aggserver.controllers.network.endpoints",
    "aggserver.controllers.network.mirrored",
    "aggserver.controllers.network.services",
    "aggserver.controllers.network.slices",
    "aggserver.controllers.network.trigger_times",
    "aggserver.controllers.pod_facts",
    "aggserver.controllers.volumes.matching",
    "aggserver.controllers.pods.running",
    "aggserver.controllers.workloads.completion_indexes",
    "aggserver.controllers.workloads.daemon_sets",
    "aggserver.controllers.workloads.deployment_progress",
    "aggserver.controllers.workloads.deployments",
    "aggserver.controllers.workloads.job_policies",
    "aggserver.controllers.workloads.jobs",
    "aggserver.controllers.workloads.node_affinity",
    "aggserver.controllers.workloads.plan",
    "aggserver.controllers.workloads.replicas",
    "aggserver.controllers.workloads.retention",
    "aggserver.controllers.workloads.revisions",
    "aggserver.controllers.workloads.stateful_sets",
    "aggserver.storage.audience",
    "aggserver.storage.changes",
    "aggserver.storage.etcd_wire",
    "aggserver.storage.jumps",
    "aggserver.storage.keys",
    "aggserver.storage.postings",
    "aggserver.storage.predicate",
    "aggserver.typed.attrs_door",
    "aggserver.typed.classes",
    "aggserver.typed.codec",
    "aggserver.typed.constraints",
    "aggserver.typed.json_schema",
    "aggserver.typed.markers",
    "aggserver.typed.metadata",
    "aggserver.typed.msgspec_door",
    "aggserver.typed.objects",
    "aggserver.typed.pydantic_door",
    "aggserver.typed.quantity",
    "aggserver.typed.reader",
    "aggserver.typed.readings",
    "aggserver.typed.scalars",
    "aggserver.typed.shape",
    "aggserver.typed.texts",
    "aggserver.typed.unions",
    "aggserver.conversion.review",
    "aggserver.webhook.answers",
    "aggserver.webhook.config",
    "aggserver.webhook.proxy",
    "aggserver.webhook.reviews",
)

# No I/O, no event loop, no clock and no chance: those are arguments.
IMPURE = (
    "aiohttp",
    "asyncio",
    "hypercorn",
    "kubernetes",
    "random",
    "secrets",
    "socket",
    "sqlite3",
    "ssl",
    "starlette",
    "subprocess",
    "threading",
    "time",
)

# (module, imported module) -> why the rule does not hold there. One that is not needed fails too.
EXCEPTIONS: dict[tuple[str, str], str] = {
    (
        "aggserver.resources.app",
        "aggserver.testing.client",
    ): "the type of what App.client gives, which only its caller imports",
}


@dataclass(frozen=True)
class Import:
    """One import: in `module`, at `line` of `path`, of the module `target`."""

    module: str
    path: str
    line: int
    target: str


def imports(source: str, module: str, path: str, modules: frozenset[str]) -> Iterator[Import]:
    """All imports in `source`. `modules` are the names of all modules of ours: `from package import name` may mean a module."""
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source, path)):
        for target in _targets(node, package, modules):
            yield Import(module, path, node.lineno, target)


def _targets(node: ast.AST, package: str, modules: frozenset[str]) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [name.name for name in names]
        case ast.ImportFrom(module=base, names=names, level=level):
            above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
            origin = ".".join([*above, *([base] if base else [])])
            found = {f"{origin}.{name.name}" for name in names}
            return sorted({name if name in modules else origin for name in found})
        case ast.Call(
            func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]
        ):
            return [name]
    return []


def violation(found: Import) -> str | None:
    """The rule that an import breaks, in words; None if it breaks none."""
    if _within(found.target, "aggserver"):
        return _layer_violation(found.module, found.target) or _pure_violation(found)
    return _door_violation(found) or _pure_violation(found)


def _layer_violation(module: str, target: str) -> str | None:
    importer, imported = _part(module), _part(target)
    if imported in IMPORTERS and imported != importer:
        allowed = IMPORTERS[imported]
        return None if any(_within(module, name) for name in allowed) else f"only {' and '.join(allowed)} may import {imported}"
    if importer in IMPORTERS:
        return None
    ours, theirs = module.split(".")[1], target.split(".")[1]
    for name in (ours, theirs):
        if _row(name) is None:
            return f"{name} is in no layer: add it to LAYERS"
    if ours == theirs or _row(ours) < _row(theirs):
        return None
    if _row(ours) == _row(theirs):
        return f"{ours} and {theirs} are of one layer and do not know each other"
    return f"{theirs} is above {ours}: imports go down, {_picture()}"


def _door_violation(found: Import) -> str | None:
    library = found.target.split(".")[0]
    doors = DOORS.get(library)
    if doors is None or any(_within(found.module, door) for door in doors):
        return None
    return f"{library} is imported only by {', '.join(doors)}"


def _pure_violation(found: Import) -> str | None:
    library = found.target.split(".")[0]
    pure = next((name for name in PURE if _within(found.module, name)), None)
    return f"{pure} is pure, and {library} is not" if pure and library in IMPURE else None


def _part(name: str) -> str:
    """The package or module directly below aggserver, or aggserver itself."""
    return ".".join(name.split(".")[:2])


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _row(name: str) -> int | None:
    return next((number for number, names in enumerate(LAYERS) if name in names), None)


def _picture() -> str:
    return " → ".join(" | ".join(names) for names in LAYERS)


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULE_NAMES = sorted(_module_name(path) for path in (ROOT / "aggserver").rglob("*.py"))


def _source(module: str) -> str:
    path = ROOT / module.replace(".", "/")
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()


@functools.cache
def all_imports() -> tuple[Import, ...]:
    """Every import of aggserver/."""
    files = {_module_name(path): path for path in sorted((ROOT / "aggserver").rglob("*.py"))}
    known = frozenset(files)
    found: list[Import] = []
    for module, path in files.items():
        found += imports(path.read_text(), module, str(path.relative_to(ROOT)), known)
    return tuple(found)


def test_the_contract_holds():
    broken = [
        f"{found.path}:{found.line}: imports {found.target}: {rule}"
        for found in all_imports()
        if (rule := violation(found)) and (found.module, found.target) not in EXCEPTIONS
    ]
    assert not broken, "\n" + "\n".join(broken)


def test_no_modules_import_each_other_in_a_circle():
    """An import inside a function hides a circle from Python, but not from who reads one of the modules."""
    known = frozenset(MODULE_NAMES)
    sorter = graphlib.TopologicalSorter(
        {module: {each.target for each in all_imports() if each.module == module} & known - {module} for module in MODULE_NAMES}
    )
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}; move what both need to a module below both")


def _reached(module: str, imported: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Every module of ours that is loaded with `module` -> the one that imports it."""
    found = {module: ""}
    waiting = [module]
    while waiting:
        importer = waiting.pop()
        for target in imported.get(importer, frozenset()):
            if _within(target, "aggserver") and target not in found:
                found[target] = importer
                waiting.append(target)
    return found


def test_what_pure_code_imports_is_pure_too():
    """A pure module that loads the event loop through another one is not pure."""
    imported = {module: frozenset(each.target for each in all_imports() if each.module == module) for module in MODULE_NAMES}
    broken = [
        f"{module} loads {name} (imported by {importer or 'nobody'}), which imports {target}"
        for module in filter(_is_pure, MODULE_NAMES)
        for name, importer in _reached(module, imported).items()
        for target in sorted(imported.get(name, ()))
        if target.split(".")[0] in IMPURE
    ]
    assert not broken, "\n" + "\n".join(broken)


def _is_pure(module: str) -> bool:
    return any(_within(module, name) for name in PURE)


def test_who_says_pure_is_listed():
    said = {
        name
        for name in MODULE_NAMES
        if re.search(r"^.*\bPure\b", ast.get_docstring(ast.parse(_source(name))) or "", re.MULTILINE)
    }
    assert {name for name in said if not _is_pure(name)} == set()


def test_the_contract_names_what_there_is():
    """A layer or a door with nothing behind it is a rule for nobody."""
    there = {"aggserver", *MODULE_NAMES}
    assert {f"aggserver.{name}" for row in LAYERS for name in row} | {*IMPORTERS, *PURE} <= there
    used = {(door, library) for library, doors in DOORS.items() for door in doors if _imports(door, library)}
    assert used == {(door, library) for library, doors in DOORS.items() for door in doors}


def _imports(door: str, library: str) -> bool:
    return any(_within(each.module, door) and _within(each.target, library) for each in all_imports())


def test_exceptions_are_needed():
    needed = {(found.module, found.target) for found in all_imports() if violation(found)}
    assert set(EXCEPTIONS) <= needed
    assert all(EXCEPTIONS.values()), "an exception says why"


MODULES = frozenset({"aggserver", "aggserver.meta", "aggserver.meta.codec", "aggserver.registry", "aggserver.registry.rest"})


@pytest.mark.parametrize(
    ("source", "targets"),
    [
        pytest.param("import json, os.path", ["json", "os.path"], id="import"),
        pytest.param("import aggserver.meta.codec as codec", ["aggserver.meta.codec"], id="import as"),
        pytest.param("from aggserver.meta import codec", ["aggserver.meta.codec"], id="module of a package"),
        pytest.param("from aggserver.meta.codec import decode, encode", ["aggserver.meta.codec"], id="names of a module"),
        pytest.param("from aggserver import meta", ["aggserver.meta"], id="package of the root"),
        pytest.param("from aggserver import __version__", ["aggserver"], id="name of the root"),
        pytest.param("from . import rest", ["aggserver.registry.rest"], id="sibling"),
        pytest.param("from .rest import Getter", ["aggserver.registry.rest"], id="name of a sibling"),
        pytest.param("from ..meta import codec", ["aggserver.meta.codec"], id="module of another package"),
        pytest.param("def f():\n    import json", ["json"], id="inside a function"),
        pytest.param("if TYPE_CHECKING:\n    import json", ["json"], id="for types only"),
        pytest.param("importlib.import_module('kubernetes.aio')", ["kubernetes.aio"], id="by name"),
    ],
)
def test_what_is_an_import(source, targets):
    found = imports(source, "aggserver.registry.store", "aggserver/registry/store.py", MODULES)
    assert [each.target for each in found] == targets


@pytest.mark.parametrize(
    ("module", "target", "rule"),
    [
        pytest.param("registry.store", "aggserver.storage.interface", None, id="down"),
        pytest.param("registry.store", "aggserver.registry.rest", None, id="within a layer's package"),
        pytest.param("registry.store", "aggserver.endpoints.installer", "endpoints is above registry", id="up"),
        pytest.param("registry.store", "aggserver.admission.chain", "do not know each other", id="sideways"),
        pytest.param("kinds.served", "aggserver.apiextensions.definition", "do not know each other", id="kinds"),
        pytest.param("registry.store", "aggserver.tools", "tools is in no layer", id="unknown layer"),
        pytest.param("registry.store", "aggserver", "only aggserver.cli and aggserver.app may import", id="root"),
        pytest.param("server.serving", "aggserver.options", "aggserver.commands may import aggserver.options", id="options"),
        pytest.param("server.serving", "aggserver.options.table", "may import aggserver.options", id="a part of the options"),
        pytest.param("cli", "aggserver.options", None, id="options in the cli"),
        pytest.param("server.serving", "aggserver.monitoring.health", "do not know each other", id="transport and monitoring"),
        pytest.param("options.reading", "aggserver.options.table", None, id="options among themselves"),
        pytest.param("server.serving", "hypercorn.config", None, id="at the door"),
        pytest.param(
            "endpoints.filters", "hypercorn.config", "hypercorn is imported only by aggserver.server", id="past the door"
        ),
        pytest.param("meta.codec", "asyncio", "aggserver.meta is pure, and asyncio is not", id="pure package"),
        pytest.param("storage.keys", "time", "aggserver.storage.keys is pure", id="pure module"),
        pytest.param("storage.cacher", "asyncio", None, id="impure module"),
    ],
)
def test_what_breaks_a_rule(module, target, rule):
    said = violation(Import(f"aggserver.{module}", "file.py", 1, target))
    assert said == rule if rule is None else rule in said
