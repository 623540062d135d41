from __future__ import annotations

from pathlib import Path

import pytest

from aggserver.app.admission_configuration import read_identities
from aggserver.app.errors import StartError

KUBECONFIG = """\
apiVersion: v1
kind: Config
users:
- name: '*.team.svc'
  user: {token: abc}
"""
HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
OF_WEBHOOKS = "{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: FOLDER/kubeconfig}"


def token(folder: Path, text: str, plugin: str) -> str:
    """What the plugin sends to a webhook. text: of the file, in which FOLDER is its folder."""
    (folder / "kubeconfig").write_text(KUBECONFIG)
    path = folder / "admission.yaml"
    path.write_text(text.replace("FOLDER", str(folder)))
    return read_identities(path)[plugin].of("hook.team.svc", 443).authorization


def test_without_a_file() -> None:
    assert {plugin: users.of("a", 443).authorization for plugin, users in read_identities(None).items()} == {
        "MutatingAdmissionWebhook": "",
        "ValidatingAdmissionWebhook": "",
    }


def test_a_configuration_in_the_file(tmp_path: Path) -> None:
    text = f"{HEAD}- name: ValidatingAdmissionWebhook\n  configuration: {OF_WEBHOOKS}\n"
    assert token(tmp_path, text, "ValidatingAdmissionWebhook") == "Bearer abc"
    assert token(tmp_path, text, "MutatingAdmissionWebhook") == ""


def test_a_configuration_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "webhooks.yaml").write_text(OF_WEBHOOKS.replace("FOLDER", str(tmp_path)))
    text = f"{HEAD}- name: MutatingAdmissionWebhook\n  path: webhooks.yaml\n"
    assert token(tmp_path, text, "MutatingAdmissionWebhook") == "Bearer abc"


def test_old_versions(tmp_path: Path) -> None:
    text = f"{HEAD}- name: MutatingAdmissionWebhook\n  configuration: {OF_WEBHOOKS}\n"
    text = text.replace("apiserver.config.k8s.io/v1\n", "apiserver.k8s.io/v1alpha1\n")
    text = text.replace("config.k8s.io/v1, kind: WebhookAdmissionConfiguration", "config.k8s.io/v1alpha1, kind: WebhookAdmission")
    assert token(tmp_path, text, "MutatingAdmissionWebhook") == "Bearer abc"


def test_plugins_of_others_are_ignored(tmp_path: Path) -> None:
    text = f"{HEAD}- name: EventRateLimit\n  configuration: {{apiVersion: a, kind: b}}\n- name: NamespaceLifecycle\n"
    assert token(tmp_path, text, "MutatingAdmissionWebhook") == ""


REFUSED = {
    "another kind": ("kind: Other", "must be AdmissionConfiguration of apiserver.config.k8s.io/v1 or "),
    "no YAML": ("a: [", "did not find expected node content"),
    "an unknown member": (f"{HEAD}- nam: x\n", r'unknown field "plugins\[\].nam"'),
    "plugins that are none": (HEAD.replace("plugins:", "plugins: [x]"), "failed to read plugin config"),
    "a plugin without a configuration": (
        f"{HEAD}- name: ResourceQuota\n  configuration: {{kind: Configuration}}\n",
        "a configuration of ResourceQuota is not supported",
    ),
    "a relative path": (
        f"{HEAD}- name: ValidatingAdmissionWebhook\n  configuration: {OF_WEBHOOKS.replace('FOLDER/', '')}\n",
        'kubeConfigFile: Invalid value: "kubeconfig": must be an absolute file path',
    ),
    "static manifests": (
        f"{HEAD}- name: ValidatingAdmissionWebhook\n  configuration: {OF_WEBHOOKS.replace('kubeConfig', 'staticManifests')}\n",
        'unknown field "staticManifestsFile"',
    ),
    "no such file": (
        f"{HEAD}- name: ValidatingAdmissionWebhook\n  path: none.yaml\n",
        r'unable to read admission control configuration from ".*/none.yaml" \[No such file or directory\]',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path) -> None:
    text, message = REFUSED[case]
    with pytest.raises(StartError, match=f"^--admission-control-config-file: .*{message}"):
        token(tmp_path, text, "ValidatingAdmissionWebhook")
