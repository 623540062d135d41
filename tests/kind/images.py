"""The images and programs that a kind cluster needs, pulled, or made here where no registry can be had.

Whoever has Docker's registries gets kindest/node and the Python that our Dockerfile names, as they are. Elsewhere a node is made
of Debian's packages (by mmdebstrap) and of Go modules: Kubernetes' programs, containerd, CNI plugins, CoreDNS, the provisioner of
volumes; with kind's own files. It differs from kindest/node: the network is made by node/network (kindnetd is in no module),
network policies are not enforced, and the kubelet starts under cgroup v1.

Everything that is made stays in the cache, below the versions it was made of, and is made once.
Source: kind v0.33 images/base/Dockerfile and pkg/build/nodeimage; kubeadm v1.36 `config images list`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.controlplane.binaries import cache_folder, kubernetes_version, stamps
from tests.controlplane.toolchain import go_command, go_environment
from tests.kind.engine import EngineError, run

__all__ = ["Images", "cache"]

Say = Callable[[str], None]

REPOSITORY = Path(__file__).parents[2]
NODE = Path(__file__).with_name("node")
CONTROL_PLANE = REPOSITORY / "tests" / "controlplane"
DEBIAN = "http://deb.debian.org/debian"
REGISTRY = "registry.k8s.io"

KIND = "sigs.k8s.io/kind@v0.33.0"
COREDNS = "github.com/coredns/coredns@v1.15.0"
CONTAINERD = "github.com/containerd/containerd/v2"
CONTAINERD_VERSION = "v2.4.2"
CNI = "github.com/containernetworking/plugins/plugins"
CNI_VERSION = "v1.9.1"
PROVISIONER = "github.com/rancher/local-path-provisioner@v0.0.30"
PROVISIONER_IMAGE = "docker.io/kindest/local-path-provisioner:local"
HELPER_IMAGE = "docker.io/kindest/local-path-helper:local"

KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubeadm", "kubectl")
CONTAINERD_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")
CNI_PROGRAMS = ("ipam/host-local", "main/loopback", "main/ptp", "meta/portmap")

# bookworm, because its systemd still knows cgroup v1.
NODE_SUITE = "bookworm"
NODE_PACKAGES = (
    *(
        "systemd",
        "systemd-sysv",
        "dbus",
        "conntrack",
        "iptables",
        "nftables",
        "iproute2",
        "ethtool",
        "util-linux",
        "mount",
        "kmod",
    ),
    *("libseccomp2", "pigz", "e2fsprogs", "bash", "ca-certificates", "curl", "jq", "procps", "runc", "socat", "ipset", "netbase"),
)

# Debian's release that has each Python.
PYTHON_SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}


def cache(environ: Mapping[str, str]) -> Path:
    """The folder for all that is made, whether it is there or not."""
    return cache_folder(environ).with_name("kind")


class Images:
    """With a Docker engine that answers. environ: of this process. Each method returns what was asked for, made first if need be,
    and raises EngineError, BinariesError or ToolchainError where that fails.
    """

    def __init__(self, environ: Mapping[str, str], say: Say) -> None:
        self._environ = environ
        self._say = say
        self._folder = cache(environ)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._version = kubernetes_version()
        made_of = [KIND, COREDNS, CONTAINERD_VERSION, CNI_VERSION, PROVISIONER, *NODE_PACKAGES]
        key = hashlib.sha256("\n".join(made_of).encode())
        for path in (CONTROL_PLANE / "go.mod", *sorted(NODE.rglob("*"))):
            key.update(path.read_bytes() if path.is_file() else b"")
        self._key = key.hexdigest()[:12]
        self._programs = self._folder / f"programs-{self._version}"
        self._programs.mkdir(exist_ok=True)

    def kind(self) -> Path:
        """The program: the one on PATH, or built from its module."""
        found = shutil.which("kind")
        return Path(found) if found else self._installed(KIND)

    def node(self) -> str:
        """The image of a node with the Kubernetes that the tests run beside."""
        name = f"aggserver-node:{self._version}-{self._key}"
        if _has(name):
            return name
        if _pulled(published := f"kindest/node:{self._version}"):
            return published
        self._say(
            f"{published} can't be pulled: making a node of Debian's packages and Go modules, 20 minutes if nothing is there"
        )
        self._made_node(name)
        return name

    def python(self, version: str) -> str:
        """The base of our image for a version such as `3.13`: the one that the Dockerfile names if it has that version."""
        declared = re.search(r"^ARG PYTHON=(\S+)$", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
        if declared is None:
            raise EngineError("Dockerfile has no `ARG PYTHON=`")
        name = declared.group(1)
        if not name.startswith(f"python:{version}"):
            name = f"python:{version}-slim-{PYTHON_SUITES[version]}"
        if _has(name) or _pulled(name):
            return name
        self._say(f"{name} can't be pulled: making an image of that name of Debian's packages")
        self._made_python(name, version)
        return name

    # What is made.

    def _made_node(self, name: str) -> None:
        programs = self._node_programs()
        root = self._root(NODE_SUITE, NODE_PACKAGES, "node")
        needed = run(programs["kubeadm"], "config", "images", "list", f"--kubernetes-version={self._version}").split()
        etcd, coredns, pause = (_named(needed, part) for part in ("/etcd:", "/coredns", "/pause:"))
        self._say("making the images of the control plane")
        for each in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"):
            self._program_image(f"{REGISTRY}/{each}:{self._version}", root, programs[each])
        self._program_image(etcd, root, programs["etcd"])
        self._program_image(coredns, "scratch", programs["coredns"], entry=True)
        self._program_image(pause, "scratch", programs["pause"], entry=True)
        self._program_image(PROVISIONER_IMAGE, root, programs["local-path-provisioner"], entry=True)
        run("docker", "tag", root, HELPER_IMAGE)
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            folder = Path(scratch)
            self._node_files(folder, programs, pause)
            base = f"{name}-base"
            _build(folder, base, ROOT=root, VERSION=self._version)
            self._with_images(name, base, [*needed, PROVISIONER_IMAGE, HELPER_IMAGE], folder / "images.tar")
        run("docker", "rmi", base)

    def _node_files(self, folder: Path, programs: Mapping[str, Path], pause: str) -> None:
        """The context of node/Dockerfile."""
        kind = self._module(KIND)
        shutil.copy(NODE / "Dockerfile", folder)
        shutil.copytree(kind / "images" / "base" / "files", folder / "files", copy_function=shutil.copyfile)
        for path in (folder / "files").rglob("*"):
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        # Under cgroup v1 the kubelet does not find containerd's cgroup by itself, and since Kubernetes 1.35 refuses to start.
        arguments = "--runtime-cgroups=/system.slice/containerd.service --fail-cgroupv1=false"
        (folder / "files/etc/default/kubelet").write_text(f"KUBELET_EXTRA_ARGS={arguments}\n")
        configuration = folder / "files/etc/containerd/config.toml"
        text = re.sub(r"sandbox_image = .*", f'sandbox_image = "{pause}"', configuration.read_text())
        # Without CAP_SYS_RESOURCE nobody may lower an oom_score_adj, and runc would end.
        configuration.write_text(text.replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true"))
        for place, names in (
            ("bin", (*CONTAINERD_PROGRAMS, "kubelet", "kubeadm", "kubectl")),
            ("cni", (_command(each) for each in CNI_PROGRAMS)),
        ):
            (folder / place).mkdir()
            for each in names:
                shutil.copy(programs[each], folder / place / each)
        shutil.copy(NODE / "crictl", folder / "bin")
        manifests = folder / "manifests"
        manifests.mkdir()
        source = (kind / "pkg/build/nodeimage/const_storage.go").read_text()
        storage = re.search(r"defaultStorageManifest = `\n(.*)\n`", source, re.DOTALL)
        if storage is None:
            raise EngineError(f"{KIND} has no manifest of a storage class where it was")
        text = storage.group(1).replace("` + storageProvisionerImage + `", PROVISIONER_IMAGE)
        (manifests / "default-storage.yaml").write_text(text.replace("` + storageHelperImage + `", HELPER_IMAGE))
        program = {"network": (NODE / "network").read_text()}
        given = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "network", "namespace": "kube-system"},
            "data": program,
        }
        text = (NODE / "network.yaml").read_text().replace("image: IMAGE", f"image: {HELPER_IMAGE}")
        (manifests / "default-cni.yaml").write_text(f"{text}---\n{json.dumps(given)}\n")

    def _with_images(self, name: str, base: str, images: Iterable[str], archive: Path) -> None:
        """The node's image with the other images in its containerd, as kubeadm finds them without a registry."""
        self._say("laying the images into the node")
        run("docker", "save", "--output", archive, *images)
        options = ("--detach", "--security-opt", "seccomp=unconfined", "--entrypoint", "sleep")
        container = run("docker", "run", *options, "--volume", f"{archive}:/images.tar:ro", base, "infinity").strip()
        try:
            run("docker", "exec", "--detach", container, "containerd")
            ready = "for n in $(seq 300); do ctr version >/dev/null 2>&1 && exit; sleep 0.2; done; exit 1"
            run("docker", "exec", container, "bash", "-c", ready)
            load = ("ctr", "--namespace=k8s.io", "images", "import", "--all-platforms", "--no-unpack", "--digests", "/images.tar")
            run("docker", "exec", container, *load)
            end = "kill $(pidof containerd); while pidof containerd >/dev/null; do sleep 0.1; done"
            run("docker", "exec", container, "bash", "-c", end)
            entrypoint = 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]'
            run("docker", "commit", "--change", entrypoint, container, name)
        finally:
            run("docker", "rm", "--force", container)

    def _program_image(self, name: str, base: str, program: Path, *, entry: bool = False) -> None:
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            folder = Path(scratch)
            shutil.copy(program, folder)
            lines = [f"FROM {base}", f"COPY {program.name} /usr/local/bin/{program.name}"]
            if entry:
                lines.append(f'ENTRYPOINT ["/usr/local/bin/{program.name}"]')
            (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
            _build(folder, name)

    def _made_python(self, name: str, version: str) -> None:
        packages = [f"python{version}", f"python{version}-venv", "ca-certificates", "netbase", "tzdata"]
        root = self._root(PYTHON_SUITES[version], packages, f"python{version}")
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            folder = Path(scratch)
            shutil.copy(NODE / "python.Dockerfile", folder / "Dockerfile")
            shutil.copy("/etc/ssl/certs/ca-certificates.crt", folder)
            run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, "pip")
            _build(folder, name, ROOT=root, PROGRAM=f"python{version}")

    def _root(self, suite: str, packages: Iterable[str], what: str) -> str:
        """An image of a root file system with these packages."""
        packages = list(packages)
        key = hashlib.sha256(" ".join([suite, *packages]).encode()).hexdigest()[:12]
        name, archive = f"aggserver-root-{what}:{key}", self._folder / f"root-{what}-{key}.tar"
        if _has(name):
            return name
        if not archive.exists():
            self._say(f"making a root file system of Debian {suite} ({what})")
            # The index of a release that is not out yet may be older than it says, on a mirror.
            options = ['--aptopt=Acquire::Languages "none"', '--aptopt=Acquire::Check-Valid-Until "false"']
            part = archive.with_suffix(".part.tar")
            run("mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}", *options, suite, part, DEBIAN)
            part.rename(archive)
        run("docker", "import", archive, name)
        return name

    # Programs from Go modules.

    def _node_programs(self) -> dict[str, Path]:
        programs = {each: self._kubernetes(f"k8s.io/kubernetes/cmd/{each}") for each in KUBERNETES}
        programs["etcd"] = self._kubernetes("go.etcd.io/etcd/server/v3", "etcd")
        stamp = f"-X {CONTAINERD}/version.Version={CONTAINERD_VERSION}"
        tags = "no_aufs no_zfs no_btrfs no_devmapper"
        for each in CONTAINERD_PROGRAMS:
            programs[each] = self._installed(f"{CONTAINERD}/cmd/{each}@{CONTAINERD_VERSION}", tags, stamp)
        for each in CNI_PROGRAMS:
            programs[_command(each)] = self._installed(f"{CNI}/{each}@{CNI_VERSION}")
        programs["local-path-provisioner"] = self._installed(PROVISIONER)
        programs["coredns"] = self._coredns()
        programs["pause"] = self._programs / "pause"
        if not programs["pause"].exists():
            run("gcc", "-static", "-Os", "-s", "-o", programs["pause"], NODE / "pause.c")
        return programs

    def _kubernetes(self, package: str, name: str = "") -> Path:
        """A program of the control plane's module, with the same flags, so that the build cache serves both."""
        program = self._programs / (name or _command(package))
        if not program.exists():
            module = self._programs / "kubernetes"
            module.mkdir(exist_ok=True)
            for each in ("go.mod", "go.sum"):
                shutil.copy(CONTROL_PLANE / each, module)
            self._go(["build", "-mod=mod", "-ldflags", stamps(self._version), "-o", program, package], module)
        return program

    def _installed(self, package: str, tags: str = "", stamp: str = "") -> Path:
        path, _, _version = package.partition("@")
        program = self._programs / _command(path)
        if not program.exists():
            options = ["-tags", tags, "-ldflags", f"-s -w {stamp}".strip(), package]
            self._go(["install", *options], self._programs, GOBIN=str(self._programs), CGO_ENABLED="0", GOFLAGS="-buildvcs=false")
        return program

    def _coredns(self) -> Path:
        """With its own module's versions, and fewer plugins."""
        program = self._programs / "coredns"
        if not program.exists():
            module, folder = self._module(COREDNS), self._programs / "dns"
            folder.mkdir(exist_ok=True)
            shutil.copy(NODE / "coredns/main.go", folder)
            path, _, version = COREDNS.partition("@")
            text = re.sub(r"^module .*", "module aggserver.test/coredns", (module / "go.mod").read_text(), flags=re.MULTILINE)
            (folder / "go.mod").write_text(f"{text}\nrequire {path} {version}\n")
            shutil.copyfile(module / "go.sum", folder / "go.sum")
            self._go(["build", "-mod=mod", "-ldflags", "-s -w", "-o", program, "."], folder, CGO_ENABLED="0")
        return program

    def _module(self, module: str) -> Path:
        """The folder of a module's source."""
        described = json.loads(self._go(["mod", "download", "-json", module], self._programs))
        return Path(described["Dir"])

    def _go(self, arguments: list[str | Path], folder: Path, **variables: str) -> str:
        go = go_command(CONTROL_PLANE / "go.mod", self._say)
        if arguments[0] != "mod":
            self._say(f"building {arguments[-1]}")
        environment = {**go_environment(self._environ), **variables}
        done = subprocess.run(
            [go, *map(str, arguments)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = "\n".join(done.stderr.splitlines()[-20:])
            raise EngineError(f"go {arguments[0]} {arguments[-1]} failed:\n{said}")
        return done.stdout


def _command(package: str) -> str:
    """The name that Go gives the program of an import path."""
    return package.rstrip("/").rsplit("/", 1)[-1].partition("@")[0]


def _named(images: Iterable[str], part: str) -> str:
    return next(each for each in images if part in each)


def _has(image: str) -> bool:
    return not subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode


def _pulled(image: str) -> bool:
    return not subprocess.run(["docker", "pull", "--quiet", image], capture_output=True, check=False).returncode


def _build(folder: Path, name: str, **arguments: str) -> None:
    options = [part for key, value in arguments.items() for part in ("--build-arg", f"{key}={value}")]
    run("docker", "build", "--quiet", "--tag", name, *options, folder)
