"""manifests/, Dockerfile and docs/cluster.md: that they fit together, and fit the options of the server.

What a real API server says to the manifests is for tests/integration; here is what would be noticed only later, or by nobody.
"""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import aggserver
from aggserver.options import parse

ROOT = Path(__file__).resolve().parents[1]
MANIFESTS = ROOT / "manifests"
COMPONENT = MANIFESTS / "own-certificates"
NAMESPACE = "aggserver-system"
LABEL = {"app.kubernetes.io/name": "aggserver"}
ACCOUNT = {"kind": "ServiceAccount", "name": "aggserver", "namespace": NAMESPACE}
CLUSTER_WIDE = {
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
NOT_OURS = {"system:auth-delegator", "extension-apiserver-authentication-reader"}


def load(path):
    return yaml.safe_load(path.read_text())


OBJECTS = {path.name: load(path) for path in sorted(MANIFESTS.glob("*.yaml")) if path.name != "kustomization.yaml"}
KUSTOMIZATION = load(MANIFESTS / "kustomization.yaml")
DEPLOYMENT = OBJECTS["deployment.yaml"]
POD = DEPLOYMENT["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]
SERVICE = OBJECTS["service.yaml"]

each_object = pytest.mark.parametrize("manifest", OBJECTS.values(), ids=OBJECTS.keys())


def options(*more):
    """What the server makes of the container's arguments."""
    values = {"POD_NAMESPACE": NAMESPACE}
    arguments = [re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], argument) for argument in (*CONTAINER["args"], *more)]
    return parse(arguments, {})


def mounts(container, pod):
    """Mount path to volume, both as they are written."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    return {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}


# --- all of them


# But for the chart's templates, which tests/integration/test_helm_chart.py renders.
FILES = [path for path in sorted(MANIFESTS.rglob("*.yaml")) if MANIFESTS / "helm" / "templates" not in path.parents]


def test_every_file_is_one_document():
    for path in FILES:
        assert len(list(yaml.safe_load_all(path.read_text()))) == 1, path


def test_kustomization_lists_every_object():
    assert len(set(KUSTOMIZATION["resources"])) == len(KUSTOMIZATION["resources"])
    assert set(KUSTOMIZATION["resources"]) == set(OBJECTS)


def test_kustomization_moves_no_object_to_another_namespace():
    assert "namespace" not in KUSTOMIZATION


@each_object
def test_object_is_labelled_and_placed(manifest):
    metadata = manifest["metadata"]
    assert manifest["apiVersion"]
    assert metadata["labels"].items() >= LABEL.items()
    assert metadata["name"].startswith("aggserver")
    if manifest["kind"] in CLUSTER_WIDE:
        assert "namespace" not in metadata
    else:
        assert metadata["namespace"] == ("kube-system" if metadata["name"] == "aggserver:auth-reader" else NAMESPACE)


def test_definitions_are_a_map_that_keeps_its_name():
    [generator] = KUSTOMIZATION["configMapGenerator"]
    assert generator["namespace"] == NAMESPACE
    assert generator["options"] == {"disableNameSuffixHash": True, "labels": LABEL}
    for file in generator["files"]:
        assert load(MANIFESTS / file)["kind"] == "CustomResourceDefinition"


def test_definitions_are_no_objects_of_the_cluster():
    assert not any(resource.startswith("examples") for resource in KUSTOMIZATION["resources"])


# --- rights


@pytest.mark.parametrize("file", [name for name, manifest in OBJECTS.items() if manifest["kind"].endswith("RoleBinding")])
def test_binding_gives_a_known_role_to_the_service_account(file):
    binding = OBJECTS[file]
    role = binding["roleRef"]
    ours = {
        (manifest["kind"], manifest["metadata"]["name"])
        for manifest in OBJECTS.values()
        if manifest["kind"] in ("Role", "ClusterRole")
    }
    assert binding["subjects"] == [ACCOUNT]
    assert role["apiGroup"] == "rbac.authorization.k8s.io"
    assert role["name"] in NOT_OURS or (role["kind"], role["name"]) in ours


def rights(*files):
    return {
        (group, resource, name, verb)
        for file in files
        for rule in OBJECTS[file]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ["(any)"])
        for verb in rule["verbs"]
    }


def test_server_has_the_rights_it_uses_and_no_others():
    certificates = f"{options().service_name}-certificates"
    assert rights("certificate-store.yaml") == {
        ("", "secrets", certificates, "get"),
        ("", "secrets", certificates, "update"),
        ("", "secrets", "(any)", "create"),
    }
    assert rights("task-lease.yaml") == {("coordination.k8s.io", "leases", "(any)", verb) for verb in ("get", "create", "update")}
    assert rights("cluster-access.yaml") == {
        *(("", resource, "(any)", verb) for resource in ("namespaces", "resourcequotas") for verb in ("get", "list", "watch")),
        ("", "resourcequotas/status", "(any)", "update"),
        *(
            ("admissionregistration.k8s.io", resource, "(any)", verb)
            for resource in (
                "mutatingadmissionpolicies",
                "mutatingadmissionpolicybindings",
                "mutatingwebhookconfigurations",
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
                "validatingwebhookconfigurations",
            )
            for verb in ("get", "list", "watch")
        ),
        ("", "services", "(any)", "get"),
        *(
            ("apiregistration.k8s.io", "apiservices", "(any)", verb)
            for verb in ("get", "list", "watch", "create", "update", "delete")
        ),
    }


def test_policy_is_about_the_server_and_its_service():
    policy, binding = OBJECTS["api-service-policy.yaml"], OBJECTS["api-service-policy-binding.yaml"]
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    [condition] = policy["spec"]["matchConditions"]
    account = OBJECTS["service-account.yaml"]["metadata"]
    assert f'"system:serviceaccount:{account["namespace"]}:{account["name"]}"' in condition["expression"]
    service = policy["spec"]["validations"][0]["expression"]
    assert f'== "{options().service_namespace}"' in service
    assert f'== "{options().service_name}"' in service


def test_network_policy_opens_the_servers_port_alone():
    spec = OBJECTS["network-policy.yaml"]["spec"]
    assert spec["podSelector"] == DEPLOYMENT["spec"]["selector"]
    assert spec["policyTypes"] == ["Ingress"]
    [rule] = spec["ingress"]
    assert rule == {"ports": [{"port": options().secure_port, "protocol": "TCP"}]}


def test_users_have_rights_on_what_is_served():
    definition = load(MANIFESTS / "examples" / "crontab.yaml")["spec"]
    reading = {"get", "list", "watch"}
    for file, verbs in (
        ("aggregate-to-edit.yaml", reading | {"create", "update", "patch", "delete", "deletecollection"}),
        ("aggregate-to-view.yaml", reading),
    ):
        assert rights(file) == {(definition["group"], definition["names"]["plural"], "(any)", verb) for verb in verbs}


def test_rights_reach_the_roles_of_users():
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    found = {
        label.removeprefix(prefix)
        for manifest in OBJECTS.values()
        for label, value in manifest["metadata"]["labels"].items()
        if label.startswith(prefix) and value == "true"
    }
    assert found == {"admin", "edit", "view"}


# --- the pod


def test_only_the_pod_asks_for_the_token():
    assert OBJECTS["service-account.yaml"]["automountServiceAccountToken"] is False
    assert POD["automountServiceAccountToken"] is True
    assert POD["serviceAccountName"] == OBJECTS["service-account.yaml"]["metadata"]["name"]


def test_pod_has_no_privilege():
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & POD.keys()
    assert not any("hostPath" in volume for volume in POD["volumes"])


def test_one_pod_at_a_time_has_the_database():
    assert (DEPLOYMENT["spec"]["replicas"], DEPLOYMENT["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert mounts(CONTAINER, POD)[options().data]["persistentVolumeClaim"] == {
        "claimName": OBJECTS["persistent-volume-claim.yaml"]["metadata"]["name"]
    }


def test_budget_lets_the_only_pod_leave():
    spec = OBJECTS["pod-disruption-budget.yaml"]["spec"]
    assert spec["maxUnavailable"] >= DEPLOYMENT["spec"]["replicas"]
    assert spec["selector"]["matchLabels"] == LABEL


def test_definitions_are_where_the_server_looks():
    [generator] = KUSTOMIZATION["configMapGenerator"]
    assert mounts(CONTAINER, POD)[str(options().definitions)]["configMap"] == {"name": generator["name"]}
    assert not any("subPath" in mount for mount in CONTAINER["volumeMounts"])


def test_service_leads_to_the_server():
    given = options()
    [port], [container_port] = SERVICE["spec"]["ports"], CONTAINER["ports"]
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == SERVICE["spec"]["selector"] == LABEL
    assert DEPLOYMENT["spec"]["template"]["metadata"]["labels"].items() >= LABEL.items()
    assert (given.service_name, given.service_namespace) == (SERVICE["metadata"]["name"], SERVICE["metadata"]["namespace"])
    assert given.service_port == port["port"]
    assert port["targetPort"] == container_port["name"]
    assert given.secure_port == container_port["containerPort"] > 1023


def test_server_ends_before_it_is_killed():
    given = options()
    assert POD["terminationGracePeriodSeconds"] > given.shutdown_delay_seconds + given.shutdown_grace_seconds


PROBES = {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}


@pytest.mark.parametrize(("probe", "path"), PROBES.items(), ids=PROBES.keys())
def test_probe_asks_what_everybody_may(probe, path):
    assert CONTAINER[probe]["httpGet"] == {"path": path, "port": CONTAINER["ports"][0]["name"], "scheme": "HTTPS"}
    assert path in options().authorization_always_allow_paths


def test_resources_are_bounded():
    assert CONTAINER["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in CONTAINER["resources"]["limits"]


def test_image_is_this_version():
    assert CONTAINER["image"] == f"aggserver:{aggserver.__version__}"


# --- own certificates


def patched():
    """The container's arguments and mounts as the component makes them."""
    container, pod = json.loads(json.dumps([CONTAINER, POD]))
    places = {
        "/spec/template/spec/containers/0/args/-": container["args"],
        "/spec/template/spec/containers/0/volumeMounts/-": container["volumeMounts"],
        "/spec/template/spec/volumes/-": pod["volumes"],
    }
    for step in load(COMPONENT / "deployment.yaml"):
        assert step["op"] == "add"
        places[step["path"]].append(step["value"])
    return container, pod


def test_own_certificates_are_mounted_where_the_flags_say():
    container, pod = patched()
    given = options(*container["args"][len(CONTAINER["args"]) :])
    folder = given.tls_cert_file.parent
    files = (given.tls_cert_file, given.tls_private_key_file, given.ca_bundle_file)
    assert files == tuple(folder / name for name in ("tls.crt", "tls.key", "ca.crt"))
    secret = mounts(container, pod)[str(folder)]["secret"]
    assert secret == {"secretName": "aggserver-serving", "defaultMode": 0o440}


def test_own_certificates_leave_out_what_is_then_not_needed():
    removed = [load(COMPONENT / patch["path"]) for patch in load(COMPONENT / "kustomization.yaml")["patches"][1:]]
    gone = {(one["kind"], one["metadata"]["name"], one["metadata"]["namespace"]) for one in removed}
    assert all(one["$patch"] == "delete" for one in removed)
    assert gone == {
        (OBJECTS[file]["kind"], OBJECTS[file]["metadata"]["name"], NAMESPACE)
        for file in ("certificate-store.yaml", "certificate-store-binding.yaml")
    }


def test_replicas_find_etcd_by_one_secret():
    folder = MANIFESTS / "replicas"
    patch = load(folder / "deployment.yaml")["spec"]["template"]["spec"]
    arguments = [step["value"] for step in load(folder / "arguments.yaml")]
    server = patch["containers"][0]
    variables = {variable["name"]: variable["valueFrom"]["secretKeyRef"] for variable in server["env"]}
    assert variables == {"AGGSERVER_ETCD_SERVERS": {"name": "aggserver-etcd", "key": "servers"}}
    values = {"POD_NAMESPACE": NAMESPACE}
    given = [re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], argument) for argument in CONTAINER["args"]]
    parsed = parse([*given, *arguments], {"AGGSERVER_ETCD_SERVERS": "https://a:2379,https://b:2379"})
    assert (parsed.storage, len(parsed.etcd_servers)) == ("etcd", 2)
    (mount,) = server["volumeMounts"]
    files = (parsed.etcd_cafile, parsed.etcd_certfile, parsed.etcd_keyfile)
    assert files == tuple(Path(mount["mountPath"]) / name for name in ("ca.crt", "tls.crt", "tls.key"))
    data, secret = patch["volumes"]
    assert (secret["name"], secret["secret"]) == (mount["name"], {"secretName": "aggserver-etcd", "defaultMode": 0o440})
    assert data["persistentVolumeClaim"] is None
    grace = parsed.shutdown_delay_seconds + parsed.shutdown_grace_seconds
    assert grace < POD["terminationGracePeriodSeconds"]


def test_the_threat_model_knows_every_right():
    """Those of users are theirs."""
    text = (ROOT / "SECURITY.md").read_text()
    ours = [
        name
        for name, manifest in OBJECTS.items()
        if (_is_role(manifest) and not name.startswith("aggregate-to-")) or manifest.get("roleRef", {}).get("name") in NOT_OURS
    ]
    assert len(ours) >= 5
    assert [name for name in ours if f"`{name}`" not in text] == []
    resources = {resource for name in ours for rule in OBJECTS[name].get("rules", ()) for resource in rule["resources"]}
    assert resources >= {"apiservices", "resourcequotas/status", "secrets", "leases"}


# --- examples


def test_example_object_is_of_the_example_definition():
    definition, instance = (load(MANIFESTS / "examples" / name) for name in ("crontab.yaml", "my-crontab.yaml"))
    spec = definition["spec"]
    assert definition["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}" == "crontabs.stable.example.com"
    assert instance["apiVersion"] == f"{spec['group']}/{spec['versions'][0]['name']}"
    assert instance["kind"] == spec["names"]["kind"]


def test_an_operator_may_tell_of_the_example_what_it_likes():
    """At /status, as kopf does by the names of its handlers."""
    (version,) = load(MANIFESTS / "examples" / "crontab.yaml")["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert status == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


# --- the image


def instructions():
    """(instruction, the rest) of the Dockerfile, continued lines joined, comments left out."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line]


INSTRUCTIONS = instructions()
# Of the last stage: what the image is.
IMAGE = dict(INSTRUCTIONS[max(index for index, (name, _) in enumerate(INSTRUCTIONS) if name == "FROM") :])


def test_every_stage_is_of_one_exact_python():
    [base] = [rest for name, rest in INSTRUCTIONS if name == "ARG"]
    assert re.fullmatch(r"PYTHON=python:3\.\d+\.\d+-slim-[a-z]+", base)
    assert {rest.split()[0] for name, rest in INSTRUCTIONS if name == "FROM"} == {"${PYTHON}"}


def pip_installs():
    """The pip commands of the Dockerfile that install something, as words."""
    commands = [shlex.split(command) for name, rest in INSTRUCTIONS if name == "RUN" for command in rest.split("&&")]
    return [words for words in commands if "pip" in words and "install" in words]


def test_everything_downloaded_has_a_hash():
    files = []
    for words in pip_installs():
        if "--no-index" in words:
            assert "--no-deps" in words
            continue
        assert {"--require-hashes", "--only-binary"} <= set(words)
        files.append(words[words.index("--requirement") + 1])
    assert files == ["requirements/build.txt", "requirements/image.txt"]


def pins(path):
    """Name to version and hashes, of a file that pip reads with --require-hashes."""
    joined = path.read_text().replace("\\\n", "")
    found = {}
    for line in joined.splitlines():
        if line and not line.startswith("#"):
            pin, *hashes = line.split()
            name, version = pin.split("==")
            found[name] = (version, hashes)
    return found


CONSTRAINTS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)


def closure(requirements):
    """Names of all that these need on the image's Python, by what is installed here."""
    python = re.search(r"python:(3\.\d+)", (ROOT / "Dockerfile").read_text())[1]
    linux = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux", "os_name": "posix"}
    environment = {
        **linux,
        "platform_system": "Linux",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    found = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in found and wanted.extras <= found[name]:
            continue
        found[name] = found.get(name, set()) | wanted.extras
        for text in metadata.requires(name) or ():
            needed = Requirement(text)
            if any(not needed.marker or needed.marker.evaluate({**environment, "extra": extra}) for extra in ("", *found[name])):
                waiting.append(needed)
    return set(found)


@pytest.mark.parametrize(("file", "roots"), [("build.txt", ["hatchling"]), ("image.txt", ["aggserver[etcd]"])])
def test_hashes_are_of_the_versions_that_are_tested(file, roots):
    """`make hashes` after any change of constraints.txt or of the dependencies."""
    found = pins(ROOT / "requirements" / file)
    for name, (version, hashes) in found.items():
        assert version == CONSTRAINTS[name], name
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", text) for text in hashes)
    assert set(found) == closure(roots) - {"aggserver"}


def test_image_runs_as_the_user_of_the_pod():
    context = POD["securityContext"]
    assert IMAGE["USER"] == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert context["fsGroup"] == context["runAsGroup"]


def test_image_is_the_server_itself():
    command = [*json.loads(IMAGE["ENTRYPOINT"]), *json.loads(IMAGE["CMD"])]
    assert command == ["aggserver", "serve"]
    assert IMAGE["STOPSIGNAL"] == "SIGTERM"


def test_image_listens_where_its_user_may():
    environment = dict(word.split("=", 1) for word in shlex.split(IMAGE["ENV"]))
    given = parse(["serve"], {name: value for name, value in environment.items() if name.startswith("AGGSERVER_")})
    assert str(given.secure_port) == IMAGE["EXPOSE"] == str(options().secure_port)


def copied():
    rests = [rest for name, rest in INSTRUCTIONS if name == "COPY" and "--from" not in rest]
    return sorted({source for rest in rests for source in rest.split()[:-1]})


def ignored(path):
    """As docker reads .dockerignore: the last pattern that fits decides."""
    found = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#") and fnmatch.fnmatch(path, line.removeprefix("!")):
            found = not line.startswith("!")
    return found


@pytest.mark.parametrize("source", copied())
def test_what_is_copied_exists_and_is_sent(source):
    assert (ROOT / source).exists()
    assert not ignored(source)


@pytest.mark.parametrize("path", ["certs", "certs/ca.key", ".git", ".data", "tests", "manifests", "docs"])
def test_nothing_else_is_sent(path):
    assert ignored(path)


# --- the page


PAGE = (ROOT / "docs" / "cluster.md").read_text()


def test_page_has_every_step_and_every_object():
    steps = [int(number) for number in re.findall(r"^\| (\d+)\. ", PAGE, re.MULTILINE)]
    assert steps == list(range(1, 16))
    assert {name for name in OBJECTS if f"`{name}`" not in PAGE} == set()


@pytest.mark.parametrize(
    "page", ["docs/cluster.md", "certs/README.md", "SECURITY.md", "CONTRIBUTING.md", "docs/releasing.md", "docs/upgrades.md"]
)
def test_page_names_what_there_is(page):
    text = (ROOT / page).read_text()
    links = [(ROOT / page).parent / link for link in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
    files = [ROOT / name for name in re.findall(r"\b((?:manifests|certs|tests|docs)/[\w./-]*\w\.(?:yaml|sh|py|md))\b", text)]
    assert [path for path in (*links, *files) if not path.exists()] == []


def test_page_says_the_version_that_is_built():
    assert set(re.findall(r"aggserver:(\d[\w.]*)", PAGE)) | set(re.findall(r"newTag: (\S+)", PAGE)) == {aggserver.__version__}


def test_the_component_for_adoption_gives_what_its_deployment_asks_for():
    adoption = MANIFESTS / "adoption"
    kustomization = load(adoption / "kustomization.yaml")
    assert {*kustomization["resources"], *(patch["path"] for patch in kustomization["patches"])} == {
        path.name for path in adoption.glob("*.yaml") if path.name != "kustomization.yaml"
    }
    added = [step["value"] for step in load(adoption / "deployment.yaml")]
    assert options(*added).adopt == "aggserver.io/adopt=true"
    roles = {(role["kind"], role["metadata"]["name"]) for role in map(load, adoption.glob("*.yaml")) if _is_role(role)}
    bindings = [load(path) for path in adoption.glob("*-binding.yaml")]
    assert {(binding["roleRef"]["kind"], binding["roleRef"]["name"]) for binding in bindings} == roles
    assert all(binding["subjects"] == [ACCOUNT] for binding in bindings)


def _is_role(manifest):
    return isinstance(manifest, dict) and manifest.get("kind") in ("Role", "ClusterRole")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(MANIFESTS)))
def test_aggregated_roles_leave_their_rules_to_the_controller(path):
    """Each apply would take the rules away for a moment, and `kubectl diff` would never be clean."""
    for manifest in yaml.safe_load_all(path.read_text()):
        if _is_role(manifest) and "$patch" not in manifest:
            assert ("aggregationRule" in manifest) != ("rules" in manifest)


def test_the_image_has_the_files_of_the_licence():
    """pyproject.toml names them, and a wheel that lacks one is built without a word."""
    named = re.search(r"^license-files = \[(.+)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert named is not None
    assert set(json.loads(f"[{named[1]}]")) <= set(copied())
