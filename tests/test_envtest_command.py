"""`aggserver envtest`: the programs that it writes, what they say, and a kube-apiserver of them that is stopped and started."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shlex
import socket
import ssl
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggserver.cli import main
from aggserver.commands.envtest import flags, kube_apiserver
from aggserver.commands.envtest.programs import MARK, Origin, texts
from aggserver.options import parse
from aggserver.options.commands import DEV
from aggserver.options.table import FLAGS
from tests.command import run
from tests.controlplane.processes import free_ports
from tests.integration.server import eventually
from tests.waiting import HANG_SECONDS

COMMAND = "aggserver envtest assets"
RUNS = [COMMAND]
NAMES = ("kube-apiserver", "etcd", "kubectl")

# --- flags ---

NOTHING: Mapping[str, Any] = {"options": (), "etcd_options": (), "etcd_servers": (), "cert_dir": "", "without_effect": ()}

FLAG_CASES: dict[str, tuple[list[str], dict[str, Any]]] = {
    # arguments of kube-apiserver, what differs from NOTHING
    "none": ([], {}),
    "with =": (["--secure-port=1234"], {"options": ("--secure-port=1234",)}),
    "in two words": (["--secure-port", "1234", "--cert-dir", "/c"], {"options": ("--secure-port=1234",), "cert_dir": "/c"}),
    "without a value": (
        ["--profiling", "--secure-port=1"],
        {"options": ("--secure-port=1",), "without_effect": ("--profiling=true",)},
    ),
    "a value with =": (["--feature-gates", "A=true", "-v=4"], {"without_effect": ("--feature-gates=A=true", "-v=4")}),
    "of one letter": (["-v", "4", "--cert-dir=c"], {"cert_dir": "c", "without_effect": ("-v=4",)}),
    "named once for each value": (
        ["--runtime-config=a", "--runtime-config=b", "--runtime-config=a"],
        {"without_effect": ("--runtime-config=a", "--runtime-config=b")},
    ),
    "a value with a space": (["--peer-ca-file=a b"], {"without_effect": ("--peer-ca-file='a b'",)}),
    "a stray word": (["serve"], {"without_effect": ("serve",)}),
    "an empty value": (["--cert-dir="], {}),
    "servers": (["--etcd-servers=http://a:1,http://b:2"], {"etcd_servers": ("http://a:1", "http://b:2")}),
    "of etcd": (["--etcd-prefix=/p"], {"etcd_options": ("--etcd-prefix=/p",)}),
    "privileged": (["--allow-privileged=true"], {}),
    "plugins to disable": (
        ["--disable-admission-plugins=ServiceAccount,PodNodeSelector"],
        {"options": ("--disable-admission-plugins=ServiceAccount",)},
    ),
    "no plugins that we have": (["--disable-admission-plugins=PodNodeSelector"], {}),
    "plugins to enable": (
        ["--enable-admission-plugins=PodNodeSelector,ResourceQuota"],
        {
            "options": ("--enable-admission-plugins=ResourceQuota",),
            "without_effect": ("--enable-admission-plugins=PodNodeSelector",),
        },
    ),
    "modes of authorization": (
        ["--authorization-mode=Node,RBAC,ABAC"],
        {"options": ("--authorization-mode=Node,RBAC",), "without_effect": ("--authorization-mode=ABAC",)},
    ),
}


@pytest.mark.parametrize(("arguments", "given"), FLAG_CASES.values(), ids=FLAG_CASES)
def test_flags(arguments: list[str], given: dict[str, Any]) -> None:
    assert flags.read(arguments) == flags.GivenFlags(**NOTHING | given)


def test_the_flags_that_are_passed_on_are_options_of_dev() -> None:
    of_dev = {flag.name for flag in FLAGS.values() if flag.commands >= DEV}
    assert of_dev >= flags.SAME
    # envtest asks the help for this one: if it is there, it turns it off.
    assert "insecure-port" not in flags.KNOWN


# --- what kube-apiserver's flags stand for ---


def test_without_etcd_data_is_in_memory(tmp_path: Path) -> None:
    arguments, remark = kube_apiserver.translate(["--secure-port=1234", "--peer-ca-file=-", f"--cert-dir={tmp_path}"], {})
    own = ["--controllers=namespace-controller", "--secure-port=1234", "--disable-admission-plugins=NodeRestriction"]
    assert arguments == ["dev", "--data=:memory:", *own]
    assert remark == "in the place of kube-apiserver; data is in memory; flags without effect: --peer-ca-file=-"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], {"NodeRestriction"}),
        (["--disable-admission-plugins=ServiceAccount"], {"ServiceAccount", "NodeRestriction"}),
        (["--enable-admission-plugins=NodeRestriction", "--disable-admission-plugins=ServiceAccount"], {"ServiceAccount"}),
    ],
)
def test_node_restriction_is_off_as_in_kube_apiserver(given: list[str], expected: set[str]) -> None:
    arguments, _ = kube_apiserver.translate(given, {})
    assert set(parse(arguments, {}).disable_admission_plugins) == expected


def test_controllers_can_be_turned_on() -> None:
    environ = {"AGGSERVER_CONTROLLERS": "*"}
    arguments, _ = kube_apiserver.translate([], environ)
    assert parse(arguments, environ).controllers == ("*",)
    assert parse(kube_apiserver.translate([], {})[0], {}).controllers == ("namespace-controller",)


def test_the_certificate_in_the_folder_is_served(tmp_path: Path) -> None:
    for name in ("apiserver.crt", "apiserver.key"):
        (tmp_path / name).touch()
    arguments, _ = kube_apiserver.translate([f"--cert-dir={tmp_path}"], {})
    options = parse(arguments, {})
    assert (options.tls_cert_file, options.tls_private_key_file) == (tmp_path / "apiserver.crt", tmp_path / "apiserver.key")
    arguments, _ = kube_apiserver.translate([f"--cert-dir={tmp_path}", "--tls-cert-file=a", "--tls-private-key-file=b"], {})
    assert parse(arguments, {}).tls_cert_file == Path("a")


def test_another_etcd_is_used_as_one() -> None:
    arguments, remark = kube_apiserver.translate(["--etcd-servers=https://a:1,https://b:1", "--etcd-cafile=ca.crt"], {})
    options = parse(arguments, {})
    assert (options.storage, options.etcd_servers, options.etcd_cafile) == (
        "etcd",
        ("https://a:1", "https://b:1"),
        Path("ca.crt"),
    )
    assert remark == "in the place of kube-apiserver; data is in etcd (https://a:1,https://b:1)"


def test_an_etcd_that_does_not_answer() -> None:
    waited: list[float] = []
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(kube_apiserver.EtcdError, match=rf"^--etcd-servers={url}: Connection refused$"):
        kube_apiserver.translate([f"--etcd-servers={url}"], {}, waited.append, lambda: sum(waited))
    assert sum(waited) >= 20


# --- the programs ---


def test_the_command_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(COMMAND.split()[1:]) == 0
    assert f"KUBEBUILDER_ASSETS={tmp_path}/assets " in capsys.readouterr().out


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    """A folder with the programs, whose name a shell has to be told with care."""
    folder = tmp_path / "it's here"
    assert main(["envtest", str(folder)]) == 0
    return folder


def call(program: Path, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=HANG_SECONDS, check=False, **more)


def test_what_is_written(assets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(path.name for path in assets.iterdir()) == sorted(NAMES)
    for name in NAMES:
        assert stat.S_IMODE((assets / name).stat().st_mode) == 0o755
    capsys.readouterr()
    assert main(["envtest", str(assets)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("export ")
    variables = dict(word.split("=", 1) for word in shlex.split(told)[1:])
    assert variables == {
        "KUBEBUILDER_ASSETS": str(assets),
        "TEST_ASSET_KUBE_APISERVER": str(assets / "kube-apiserver"),
        "TEST_ASSET_ETCD": str(assets / "etcd"),
        "TEST_ASSET_KUBECTL": str(assets / "kubectl"),
    }


def test_ours_are_written_again(assets: Path) -> None:
    before = (assets / "etcd").read_text()
    (assets / "etcd").write_text(f"#!/bin/sh\n{MARK}\nexit 1\n")
    assert main(["envtest", str(assets)]) == 0
    assert (assets / "etcd").read_text() == before


def test_programs_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kubectl").write_bytes(b"\x7fELF")
    done = run("envtest", str(tmp_path), cwd=tmp_path)
    why = "is there already, and was not written by aggserver envtest; take another folder"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"aggserver: {tmp_path}/kubectl: {why}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["kubectl"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("envtest", "file/assets", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, f"aggserver: {tmp_path}/file/assets: Not a directory\n")


def test_the_help_that_envtest_asks_for(assets: Path) -> None:
    done = call(assets / "kube-apiserver", "--help")
    assert done.returncode == 0
    listed = re.findall(r"^\s*--(\S+)", done.stdout, re.MULTILINE)
    assert listed == sorted(flags.KNOWN)
    assert call(assets / "etcd", "--help").returncode == 0
    assert re.fullmatch(r"Kubernetes v1\.\d+\.\d+\n", call(assets / "kube-apiserver", "--version").stdout)


@pytest.mark.parametrize(("root", "variable"), [(None, None), (Path("/a b"), "/a b:/before")])
def test_which_aggserver_is_run(tmp_path: Path, root: Path | None, variable: str | None) -> None:
    """A Python that prints what it was called with, in the place of the one that wrote the programs."""
    python = tmp_path / "a python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$PYTHONPATH" "$@"\n')
    python.chmod(0o755)
    written = texts(Origin(python, Path("/e t/etcd.py"), root), "0.1", "v1.2.3", ["a"])
    for name, called in (("kube-apiserver", "-P -m aggserver kube-apiserver"), ("etcd", "-I -S")):
        (program := tmp_path / name).write_text(written[name])
        program.chmod(0o755)
        lines = call(program, "--flag", "a value", env={"PATH": os.environ["PATH"], "PYTHONPATH": "/before"}).stdout.split("\n")
        before = variable or "/before" if name == "kube-apiserver" else "/before"
        file = ["/e t/etcd.py"] if name == "etcd" else []
        assert lines == [before, *called.split(), *file, "--flag", "a value", ""]


# --- kubectl ---


def test_kubectl_is_the_first_real_one_on_path(assets: Path, tmp_path: Path) -> None:
    assert main(["envtest", str(tmp_path / "more")]) == 0
    (real := tmp_path / "real").mkdir()
    (real / "kubectl").write_text('#!/bin/sh\nprintf "%s;" "$@"\n')
    (tmp_path / "not executable").mkdir()
    (tmp_path / "not executable" / "kubectl").touch()
    folders = [tmp_path / "nothing", tmp_path / "not executable", tmp_path / "more", assets]
    path = ":".join(map(str, [*folders, real, *os.environ["PATH"].split(":")]))
    (real / "kubectl").chmod(0o755)
    assert call(assets / "kubectl", "get", "a b", env={"PATH": path}).stdout == "get;a b;"


def test_without_a_kubectl(assets: Path, tmp_path: Path) -> None:
    (tools := tmp_path / "tools").mkdir()
    for name in ("head", "grep"):
        (tools / name).symlink_to(next(found for found in (Path("/usr/bin", name), Path("/bin", name)) if found.exists()))
    done = call(assets / "kubectl", "get", env={"PATH": f"{assets}:{tools}"})
    assert done.returncode == 127
    assert done.stderr == "kubectl: PATH has none. https://kubernetes.io/docs/tasks/tools/ says how to install it.\n"


# --- etcd and kube-apiserver at work ---

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(assets: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a program of the folder; its output goes to a file with its name."""
    started: list[subprocess.Popen[str]] = []

    def start(name: str, *arguments: str) -> subprocess.Popen[str]:
        with (tmp_path / f"{name}.log").open("w") as log:
            environment = {"PATH": os.environ["PATH"]}
            started.append(subprocess.Popen([assets / name, *arguments], stdout=log, stderr=log, env=environment, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def get(port: int, path: str) -> tuple[int, bytes] | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    except OSError:
        return None
    finally:
        connection.close()


def test_etcd_is_healthy_until_it_is_told_to_end(start: Start, tmp_path: Path) -> None:
    ports = free_ports(2)
    urls = ",".join(f"http://127.0.0.1:{port}" for port in ports)
    etcd = start("etcd", f"--listen-client-urls={urls}", "--data-dir", str(tmp_path / "data"), "--unsafe-no-fsync=true")
    for port in ports:
        status, body = eventually(lambda port=port: get(port, "/health"), "etcd")
        assert (status, json.loads(body)) == (200, {"health": "true", "reason": ""})
        assert get(port, "/data-dir") == (200, os.fsencode(tmp_path / "data"))
        assert get(port, "/v3/kv/range") == (404, b"")
    with socket.create_connection(("127.0.0.1", ports[0])) as garbage:
        garbage.sendall(b"x\r\n\r\n")
        assert garbage.recv(100).startswith(b"HTTP/1.1 404")
    with socket.create_connection(("127.0.0.1", ports[0])):
        pass  # gone without a request
    assert get(ports[0], "/health") is not None
    etcd.terminate()
    assert etcd.wait(HANG_SECONDS) == -15


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "http://127.0.0.1", "unix://localhost:m1"])
def test_etcd_listens_without_tls_only(assets: Path, tmp_path: Path, url: str) -> None:
    done = call(assets / "etcd", f"--listen-client-urls={url}", cwd=tmp_path)
    why = f"--listen-client-urls={url}: only http://HOST:PORT can be listened on"
    assert (done.returncode, done.stderr) == (1, f"etcd of aggserver envtest: {why}\n")


def test_etcd_at_a_port_in_use(assets: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = call(assets / "etcd", f"--listen-client-urls={url}", cwd=tmp_path)
    why = f"--listen-client-urls={url}: Address already in use"
    assert (done.returncode, done.stderr) == (1, f"etcd of aggserver envtest: {why}\n")


def namespaces(data: Path, port: int, *, create: str = "") -> set[str]:
    """The namespaces that a kube-apiserver with its data in this folder has, after this one was made there."""
    context = ssl._create_unverified_context()
    user = yaml.safe_load((data / "kubeconfig").read_text())["users"][0]["user"]
    for name in ("client-certificate-data", "client-key-data"):
        (data / name).write_bytes(base64.b64decode(user[name]))
    context.load_cert_chain(data / "client-certificate-data", data / "client-key-data")
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=HANG_SECONDS)
    try:
        if create:
            body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": create}})
            connection.request("POST", "/api/v1/namespaces", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            made = response.read()
            assert response.status == 201, made
        connection.request("GET", "/api/v1/namespaces")
        return {item["metadata"]["name"] for item in json.loads(connection.getresponse().read())["items"]}
    finally:
        connection.close()


def healthy(port: int) -> bool:
    """Asked as envtest asks: without a client certificate, and whoever serves it."""
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=HANG_SECONDS)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def test_data_lives_as_long_as_with_etcd(start: Start, tmp_path: Path) -> None:
    """kube-apiserver is stopped and started, then with another etcd. The first is started before its etcd is there."""
    client_port, port = free_ports(2)
    data, another = tmp_path / "data", tmp_path / "another"
    arguments = [f"--secure-port={port}", f"--etcd-servers=http://127.0.0.1:{client_port}", "--allow-privileged=true", "--v=2"]

    def serve(create: str, folder: Path) -> set[str]:
        apiserver = start("kube-apiserver", *arguments)
        if not (folder / "kubeconfig").exists():
            start_etcd(folder)
        eventually(lambda: healthy(port), "kube-apiserver")
        # Once healthy, it has yet to write the kubeconfig.
        log = tmp_path / "kube-apiserver.log"
        eventually(lambda: "aggserver serves" in log.read_text(), "kubeconfig")
        found = namespaces(folder, port, create=create)
        apiserver.terminate()
        assert apiserver.wait(HANG_SECONDS) == 0
        assert f"in the place of kube-apiserver; data is in {folder}; flags without effect: -v" in log.read_text()
        return found

    def start_etcd(folder: Path) -> None:
        etcds.append(start("etcd", f"--listen-client-urls=http://127.0.0.1:{client_port}", f"--data-dir={folder}"))

    etcds: list[subprocess.Popen[str]] = []
    assert serve("one", data) >= {"default", "one"}
    assert serve("two", data) >= {"default", "one", "two"}
    etcds[0].terminate()
    etcds[0].wait(HANG_SECONDS)
    assert serve("three", another) & {"one", "two", "three"} == {"three"}


def test_a_flag_with_a_wrong_value(assets: Path) -> None:
    done = call(assets / "kube-apiserver", "--secure-port=high")
    assert done.returncode == 2
    assert done.stderr == "aggserver: --secure-port: must be a whole number, 0 or more\n"
