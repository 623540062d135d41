"""Options: every source, their precedence, and a one-line error for each mistake."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from aggserver.options import Options, OptionsError, parse


def said(*argv, environ=None, command="serve"):
    """The options that differ from the command's defaults."""
    options, default = parse([command, *argv], environ or {}), parse([command], {})
    return {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(Options)
        if getattr(options, field.name) != getattr(default, field.name)
    }


def test_defaults_are_upstreams():
    options = parse(["serve"], {})
    assert (options.secure_port, options.bind_address) == (443, "0.0.0.0")
    assert (options.max_requests_inflight, options.max_mutating_requests_inflight) == (400, 200)
    assert (options.request_timeout_seconds, options.shutdown_delay_seconds) == (60.0, 0.0)
    assert options.requestheader_username_headers == ("x-remote-user",)
    assert options.authorization_always_allow_paths == ("/healthz", "/readyz", "/livez")
    assert options.anonymous_auth


def test_dev_is_for_a_laptop():
    options = parse(["dev"], {})
    assert (options.secure_port, options.bind_address, options.data) == (6443, "127.0.0.1", ".aggserver")


CEL = {
    "expression": (["1 + 1"], {"expression": "1 + 1"}),
    "definition": (["--definition", "c.yaml"], {"definition_file": Path("c.yaml"), "at": ".", "output": "text"}),
    "place": (
        ["self", "--definition", "-", "--version", "v1", "--at", ".spec"],
        {"definition_file": Path("-"), "definition_version": "v1", "at": ".spec"},
    ),
    "objects": (
        ["self", "--object", "new", "--old-object", "old", "-o", "json"],
        {"object_file": Path("new"), "old_object_file": Path("old"), "output": "json"},
    ),
    "beyond": (["1", "--rules-see-labels", "--rules-budget", "5"], {"rules_see_labels": True, "rules_budget": 5}),
}


@pytest.mark.parametrize(("argv", "expected"), CEL.values(), ids=CEL)
def test_cel(argv, expected):
    options = parse(["cel", *argv], {})
    assert {name: getattr(options, name) for name in expected} == expected


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_rules_are_upstreams_unless_said_otherwise(command, tmp_path):
    options = parse([command], {})
    assert (options.rules_see_labels, options.rules_budget) == (False, 1)
    assert said("--rules-see-labels", "--rules-budget=3", command=command) == {"rules_see_labels": True, "rules_budget": 3}
    environ = {"AGGSERVER_RULES_SEE_LABELS": "true", "AGGSERVER_RULES_BUDGET": "3"}
    assert said(environ=environ, command=command) == {"rules_see_labels": True, "rules_budget": 3}
    config = tmp_path / "config.yaml"
    config.write_text("rules-see-labels: true\nrules-budget: 3\n")
    assert said("--config", str(config), command=command) == {"rules_see_labels": True, "rules_budget": 3}


def test_version_asks_for_nothing():
    for argv in (["version"], ["--version"]):
        assert parse(argv, {"AGGSERVER_NONSENSE": "1"}).command == "version"


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["dev", "--"], "dev: a command is required after --"),
        (["completion", "tcsh"], "SHELL: must be one of bash, zsh, fish"),
    ],
)
def test_what_is_refused(argv, text):
    with pytest.raises(OptionsError, match=text):
        parse(argv, {})


FLAGS = {
    "number": (["--secure-port", "8443"], {"secure_port": 8443}),
    "with equals": (["--secure-port=0"], {"secure_port": 0}),
    "address": (["--bind-address", "::"], {"bind_address": "::"}),
    "duration": (["--request-timeout", "1m30s"], {"request_timeout_seconds": 90.0}),
    "bytes": (["--max-object-bytes", "1048576"], {"max_object_bytes": 1048576}),
    "no compaction by age": (["--sqlite-compaction-interval", "0"], {"sqlite_compaction_interval_seconds": 0.0}),
    "zero duration": (["--authorization-webhook-cache-authorized-ttl", "0"], {"authorization_allow_cache_seconds": 0.0}),
    "switch": (["--authentication-skip-lookup"], {"authentication_skip_lookup": True}),
    "switch off": (["--anonymous-auth=false"], {"anonymous_auth": False}),
    "list": (["--requestheader-allowed-names", "a, b"], {"requestheader_allowed_names": ("a", "b")}),
    "list, repeated": (
        ["--requestheader-allowed-names", "a", "--requestheader-allowed-names=b,c"],
        {"requestheader_allowed_names": ("a", "b", "c")},
    ),
    "emptied list": (["--authorization-always-allow-paths="], {"authorization_always_allow_paths": ()}),
    "path": (["--definitions", "/etc/crds"], {"definitions": Path("/etc/crds")}),
    "pair": (
        ["--tls-cert-file", "/c", "--tls-private-key-file", "/k"],
        {"tls_cert_file": Path("/c"), "tls_private_key_file": Path("/k")},
    ),
}


@pytest.mark.parametrize(("argv", "expected"), FLAGS.values(), ids=FLAGS)
def test_flags(argv, expected):
    assert said(*argv) == expected


def test_dev_files_may_have_commas():
    expected = {"filenames": ("a,b.yaml", "https://example.com/c.yaml"), "data": ":memory:"}
    argv = ["-f", "a,b.yaml", "--filename", "https://example.com/c.yaml", "--data", ":memory:"]
    assert said(*argv, command="dev") == expected


def test_a_command_to_run():
    options = parse(["dev", "--filename", "c.yaml", "--", "pytest", "--", "-x"], {})
    assert options.run == ("pytest", "--", "-x")
    assert (options.secure_port, options.data, options.log_level) == (0, ":memory:", "warning")
    assert parse(["dev"], {}).run == ()
    told = parse(["dev", "--secure-port", "1", "--data=d", "--", "true"], {"AGGSERVER_LOG_LEVEL": "info"})
    assert (told.secure_port, told.data, told.log_level) == (1, "d", "info")


def test_one_name_may_mean_two_options():
    """`serve` reads --kubeconfig, `dev` writes it."""
    environ = {"AGGSERVER_KUBECONFIG": "/k"}
    serve, dev = parse(["serve"], environ), parse(["dev"], environ)
    assert (serve.kubeconfig, serve.kubeconfig_to_write) == (Path("/k"), None)
    assert (dev.kubeconfig, dev.kubeconfig_to_write) == (None, Path("/k"))


@pytest.mark.parametrize(("argv", "text"), [([], "usage: aggserver "), (["storage"], "usage: aggserver storage ")])
def test_help_where_nothing_is_asked_for(argv, text, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(argv, {})
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(text)


STORAGE = {
    "check": (["storage", "check", "--data", "d"], {"command": "storage check", "data": "d"}),
    "backup": (["storage", "backup", "b.db"], {"command": "storage backup", "file": Path("b.db"), "data": "/var/lib/aggserver"}),
    "restore": (["storage", "restore", "b.db"], {"file": Path("b.db"), "bump_revision": 1_000_000_000}),
    "bump": (["storage", "restore", "b.db", "--bump-revision", "2000000000"], {"bump_revision": 2_000_000_000}),
}


@pytest.mark.parametrize(("argv", "expected"), STORAGE.values(), ids=STORAGE)
def test_storage(argv, expected):
    options = parse(argv, {"AGGSERVER_SECURE_PORT": "8443"})
    assert {name: getattr(options, name) for name in expected} == expected


ENVIRONMENT = {
    "plain": ({"AGGSERVER_SECURE_PORT": "8443"}, {"secure_port": 8443}),
    "list": ({"AGGSERVER_REQUESTHEADER_ALLOWED_NAMES": "a,b"}, {"requestheader_allowed_names": ("a", "b")}),
    "switch": ({"AGGSERVER_ANONYMOUS_AUTH": "false"}, {"anonymous_auth": False}),
    "unrelated variables": ({"PATH": "/bin", "HOME": "/"}, {}),
    "the other command's": ({"AGGSERVER_FILENAME": "x.yaml"}, {}),
    "service links of a Service named aggserver": (
        {
            "AGGSERVER_SERVICE_HOST": "10.0.0.1",
            "AGGSERVER_SERVICE_PORT": "8443",
            "AGGSERVER_SERVICE_PORT_HTTPS": "8443",
            "AGGSERVER_PORT": "tcp://10.0.0.1:8443",
            "AGGSERVER_PORT_8443_TCP": "tcp://10.0.0.1:8443",
            "AGGSERVER_PORT_8443_TCP_PROTO": "tcp",
            "AGGSERVER_PORT_8443_TCP_PORT": "8443",
            "AGGSERVER_PORT_8443_TCP_ADDR": "10.0.0.1",
        },
        {"service_port": 8443},  # one of the links is also an option, and its value is right
    ),
    "service links of a Service named aggserver-secure": ({"AGGSERVER_SECURE_PORT": "tcp://10.0.0.1:443"}, {}),
}


@pytest.mark.parametrize(("environ", "expected"), ENVIRONMENT.values(), ids=ENVIRONMENT)
def test_environment(environ, expected):
    assert said(environ=environ) == expected


FILES = {
    "empty": ("", {}),
    "numbers and strings": ("secure-port: 8443\ndata: /data\n", {"secure_port": 8443, "data": "/data"}),
    "number as string": ('secure-port: "8443"\n', {"secure_port": 8443}),
    "switch": ("anonymous-auth: false\n", {"anonymous_auth": False}),
    "list": ("requestheader-allowed-names: [a, 'b,c']\n", {"requestheader_allowed_names": ("a", "b", "c")}),
    "list as string": ("requestheader-allowed-names: a,b\n", {"requestheader_allowed_names": ("a", "b")}),
    "duration": ("request-timeout: 2m\n", {"request_timeout_seconds": 120.0}),
}


@pytest.mark.parametrize(("content", "expected"), FILES.values(), ids=FILES)
def test_file(tmp_path, content, expected):
    path = tmp_path / "config.yaml"
    path.write_text(content)
    assert said("--config", str(path)) == expected
    assert said(environ={"AGGSERVER_CONFIG": str(path)}) == expected


def test_flag_before_environment_before_file(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("secure-port: 1\nmax-requests-inflight: 1\ndata: /file\n")
    environ = {"AGGSERVER_SECURE_PORT": "2", "AGGSERVER_MAX_REQUESTS_INFLIGHT": "2"}
    options = parse(["serve", "--config", str(path), "--secure-port", "3"], environ)
    assert (options.secure_port, options.max_requests_inflight, options.data) == (3, 2, "/file")


def test_urls_of_kube_apiservers_are_kept_as_they_are():
    flags = ["--kube-apiservers", "https://10.0.0.1:6443,https://[fd00::1]:6443", "--kube-apiservers=https://a/k8s/clusters/c-1"]
    expected = ("https://10.0.0.1:6443", "https://[fd00::1]:6443", "https://a/k8s/clusters/c-1")
    assert parse(["serve", *flags], {}).kube_apiservers == expected


def test_services_in_all_forms(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("resolve-service: [a/b=localhost:1, a/c=10.0.0.7:443]\n")
    expected = ((("a", "b"), ("localhost", 1)), (("a", "c"), ("10.0.0.7", 443)))
    flags = ["--resolve-service", "a/b=localhost:1", "--resolve-service=a/c=10.0.0.7:443"]
    assert parse(["dev", *flags], {}).resolve_services == expected
    assert parse(["serve", "--config", str(path)], {}).resolve_services == expected
    assert parse(["dev"], {"AGGSERVER_RESOLVE_SERVICE": "a/b=[::1]:1"}).resolve_services == ((("a", "b"), ("::1", 1)),)


MISTAKES = {
    "etcd without servers": (["dev", "--storage", "etcd"], {}, "--storage etcd requires --etcd-servers"),
    "servers without etcd": (
        ["dev", "--etcd-servers", "http://localhost:2379"],
        {},
        "--etcd-servers has no meaning without --storage etcd",
    ),
    "half a key pair for etcd": (
        ["serve", "--storage", "etcd", "--etcd-servers", "https://localhost:2379", "--etcd-certfile", "a"],
        {},
        "--etcd-certfile and --etcd-keyfile go together",
    ),
    "half a key pair for the cluster's etcd": (
        ["serve", "--host-etcd-servers", "https://localhost:2379", "--host-etcd-keyfile", "a"],
        {},
        "--host-etcd-certfile and --host-etcd-keyfile go together",
    ),
    "a CA for the cluster's etcd alone": (
        ["serve", "--host-etcd-cafile", "a"],
        {},
        "--host-etcd-cafile has no meaning without --host-etcd-servers",
    ),
    "a certificate for the cluster's etcd alone": (
        ["serve", "--host-etcd-certfile", "a", "--host-etcd-keyfile", "b"],
        {},
        "--host-etcd-certfile has no meaning without --host-etcd-servers",
    ),
    "the cluster's etcd without adoption": (
        ["serve", "--host-etcd-servers", "https://localhost:2379"],
        {},
        "--host-etcd-servers has no meaning without --adopt",
    ),
    "a kube-apiserver without a scheme": (
        ["serve", "--kube-apiservers", "https://10.0.0.1:6443,127.0.0.1:6443"],
        {},
        "--kube-apiservers: must be URLs such as https://host:6443: 127.0.0.1:6443 has no scheme; write https://127.0.0.1:6443",
    ),
    "a kube-apiserver with another scheme": (
        ["serve", "--kube-apiservers", "grpc://a:6443"],
        {},
        "--kube-apiservers: must be URLs such as https://host:6443: grpc://a:6443 has the scheme grpc",
    ),
    "a kube-apiserver without a host": (
        ["serve", "--kube-apiservers", "https://:6443"],
        {},
        "--kube-apiservers: must be URLs such as https://host:6443: https://:6443 has no host",
    ),
    "a kube-apiserver with a port that is no number": (
        ["serve"],
        {"AGGSERVER_KUBE_APISERVERS": "https://a:https"},
        "AGGSERVER_KUBE_APISERVERS: must be URLs such as https://host:6443: https://a:https: "
        "Port could not be cast to integer value as 'https'",
    ),
    "a kube-apiserver with credentials": (
        ["serve", "--kube-apiservers", "https://me@a:6443"],
        {},
        "--kube-apiservers: must be URLs such as https://host:6443: https://me@a:6443 has more than scheme, host, port and path; "
        "credentials are the kubeconfig's",
    ),
    "no selector": (
        ["serve", "--adopt", "a b"],
        {},
        "--adopt: must be a label selector: unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
    ),
    "backup to nowhere": (["storage", "backup"], {}, "the following arguments are required: FILE"),
    "a bump of nothing": (
        ["storage", "restore", "b", "--bump-revision=0"],
        {},
        "--bump-revision: must be a whole number, 1 or more",
    ),
    "a service without a port": (
        ["dev", "--resolve-service", "a/b=c"],
        {},
        "--resolve-service: must be NAMESPACE/NAME=HOST:PORT",
    ),
    "no budget": (["dev", "--rules-budget", "0"], {}, "--rules-budget: must be a whole number, 1 or more"),
    "half a budget": (["dev", "--rules-budget", "0.5"], {}, "--rules-budget: must be a whole number, 1 or more"),
    "nothing to check": (["cel"], {}, "cel: an expression or --definition is required"),
    "a place in no definition": (["cel", "self", "--at", ".spec"], {}, "--version and --at have no meaning without --definition"),
    "a place of no expression": (["cel", "--definition", "c", "--at", ".s"], {}, "--at has no meaning without an expression"),
    "an old object alone": (["cel", "1", "--old-object", "o"], {}, "--old-object has no meaning without --object"),
    "two from one input": (
        ["cel", "--definition", "-", "--object", "-"],
        {},
        "-: standard input can be used for one file only",
    ),
    "a file by its variable": (["serve"], {"AGGSERVER_FILE": "b"}, "environment variable AGGSERVER_FILE: no such option"),
    "unknown mode": (["dev", "--sqlite-synchronous=extra"], {}, "--sqlite-synchronous: must be one of full, normal, off"),
    "unknown flag": (["serve", "--bogus"], {}, "unrecognized arguments: --bogus"),
    "a flag of the other command": (["dev", "--definitions", "x"], {}, "unrecognized arguments: --definitions x"),
    "no abbreviations": (["serve", "--secure", "1"], {}, "unrecognized arguments: --secure 1"),
    "no number": (["serve", "--secure-port", "http"], {}, "--secure-port: must be a whole number, 0 or more"),
    "port too large": (["serve", "--secure-port", "65536"], {}, "--secure-port: must be between 0 and 65535"),
    "no address": (
        ["serve", "--bind-address", "localhost"],
        {},
        "--bind-address: 'localhost' does not appear to be an IPv4 or IPv6 address",
    ),
    "no unit": (["serve", "--request-timeout", "5"], {}, '--request-timeout: time: missing unit in duration "5"'),
    "no bytes": (["serve", "--max-object-bytes=0"], {}, "--max-object-bytes: must be a whole number, 1 or more"),
    "negative": (["serve", "--request-timeout=-5s"], {}, "--request-timeout: must not be negative"),
    "no time at all": (["serve", "--request-timeout=0s"], {}, "--request-timeout: must be more than 0"),
    "no boolean": (["serve", "--anonymous-auth=maybe"], {}, "--anonymous-auth: must be true or false"),
    "unknown choice": (["serve", "--log-level=loud"], {}, "--log-level: must be one of debug, info, warning, error"),
    "old TLS": (["serve", "--tls-min-version=VersionTLS10"], {}, "--tls-min-version: must be one of VersionTLS12, VersionTLS13"),
    "half a pair": (["serve", "--tls-cert-file=/c"], {}, "--tls-cert-file and --tls-private-key-file go together"),
    "CAs of nothing": (["serve", "--ca-bundle-file=/b"], {}, "--ca-bundle-file has no meaning without --tls-cert-file"),
    "no mode": (["dev", "--authorization-mode", ""], {}, "at least one authorization-mode must be passed"),
    "another mode": (
        ["dev", "--authorization-mode=RBAC,ABAC"],
        {},
        'authorization-mode "ABAC" is not a valid mode; known are AlwaysAllow, AlwaysDeny, Node, RBAC',
    ),
    "a mode twice": (
        ["dev", "--authorization-mode=RBAC,Node,RBAC"],
        {},
        'authorization-mode ["RBAC" "Node" "RBAC"] has mode specified more than once',
    ),
    "no header to look at": (
        ["serve", "--requestheader-client-ca-file=/c", "--requestheader-username-headers="],
        {},
        "--requestheader-username-headers: at least one is required with --requestheader-client-ca-file",
    ),
    "unknown variable": (["serve"], {"AGGSERVER_SECUREPORT": "1"}, "environment variable AGGSERVER_SECUREPORT: no such option"),
    "bad variable": (
        ["serve"],
        {"AGGSERVER_SECURE_PORT": "x"},
        "AGGSERVER_SECURE_PORT: must be a whole number, 0 or more",
    ),
    "no file": (["serve", "--config", "/no/such/file"], {}, "--config: /no/such/file: No such file or directory"),
}


@pytest.mark.parametrize(("argv", "environ", "text"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(argv, environ, text):
    with pytest.raises(OptionsError) as caught:
        parse(argv, environ)
    assert str(caught.value) == text


BAD_FILES = {
    "unknown key": ("securePort: 1\n", "securePort: no such option"),
    "wrong type": ("secure-port: [1]\n", "secure-port: must be a whole number, 0 or more"),
    "number for a string": ("data: 1\n", "data: must be a string"),
    "a switch is no number": ("secure-port: true\n", "secure-port: must be a whole number, 0 or more"),
    "not a mapping": ("- a\n", "must be a mapping of option names to values"),
    "not YAML": ("a: [\n", "yaml: "),
    "twice": ("data: a\ndata: b\n", "data"),
}


@pytest.mark.parametrize(("content", "text"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(tmp_path, content, text):
    path = tmp_path / "config.yaml"
    path.write_text(content)
    with pytest.raises(OptionsError) as caught:
        parse(["serve", "--config", str(path)], {})
    assert text in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_help_has_every_option_in_a_group(command, capsys):
    with pytest.raises(SystemExit) as caught:
        parse([command, "--help"], {})
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for heading in ("serving:", "TLS:", "limits:"):
        assert f"\n{heading}\n" in text
    assert ("--definitions" in text) is (command == "serve")
    assert f"default: {parse([command], {}).secure_port})" in text


# name: (flags, what is wrong)
AUDIT_REFUSED = {
    "an unknown mode": (["--audit-log-mode=later"], "--audit-log-mode: must be one of batch, blocking, blocking-strict"),
    "no buffer": (
        ["--audit-log-mode=batch", "--audit-log-batch-buffer-size=0"],
        "invalid audit batch log buffer size 0, must be a positive number",
    ),
    "no rate": (
        ["--audit-webhook-config-file=k", "--audit-webhook-batch-throttle-qps=0.0"],
        "invalid audit batch webhook throttle QPS 0, must be a positive number",
    ),
    "no event": (
        ["--audit-log-truncate-max-event-size=0"],
        "invalid audit truncate log max event size 0, must be a positive number",
    ),
    "a batch shorter than an event": (
        ["--audit-log-truncate-max-batch-size=10"],
        "invalid audit truncate log max batch size 10, must be greater than max event size (102400)",
    ),
}


@pytest.mark.parametrize("case", AUDIT_REFUSED)
def test_audit_flags_that_are_refused(case):
    argv, text = AUDIT_REFUSED[case]
    with pytest.raises(OptionsError) as caught:
        parse(["serve", "--audit-log-path=log", *argv], {})
    assert str(caught.value) == text


def test_audit_flags_that_are_not_used_are_not_checked():
    unused = ["--audit-log-batch-buffer-size=0", "--audit-webhook-truncate-max-event-size=0"]
    assert said("--audit-log-path=log", *unused)["audit_log_path"] == "log"  # the log's mode is not batch


def test_audit_defaults_are_upstreams():
    options = parse(["serve"], {})
    assert (options.audit_log_mode, options.audit_log_batch_max_size, options.audit_log_batch_throttle_enable) == (
        "blocking",
        1,
        False,
    )
    assert (options.audit_log_maxsize, options.audit_log_maxage, options.audit_log_maxbackup) == (100, 366, 100)
    assert (options.audit_webhook_mode, options.audit_webhook_batch_max_size) == ("batch", 400)
    assert (options.audit_webhook_batch_throttle_qps, options.audit_webhook_batch_throttle_burst) == (10.0, 15)
    assert (options.audit_webhook_initial_backoff_seconds, options.audit_webhook_batch_max_wait_seconds) == (10.0, 30.0)
    assert (options.audit_log_truncate_max_batch_size, options.audit_webhook_truncate_max_event_size) == (10485760, 102400)
