"""manifests/examples/conversion_webhook.py: what it makes of reviews, good and bad, and of clients that are neither."""

from __future__ import annotations

import http.client
import importlib.util
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.controlplane.pki import Authority
from tests.waiting import HANG_SECONDS

EXAMPLES = Path(__file__).parents[1] / "manifests" / "examples"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("conversion_webhook", EXAMPLES / "conversion_webhook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


webhook = load()

META = {"name": "local-crontab", "namespace": "default", "uid": "3415a7fc", "labels": {"a": "b"}}


def crontab(version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"example.com/{version}", "kind": "CronTab", "metadata": META, **fields}


def review(*objects: Any, to: Any = "example.com/v1", version: str = "v1") -> dict[str, Any]:
    request = {"uid": "705ab4f5", "desiredAPIVersion": to, "objects": list(objects)}
    return {"apiVersion": f"apiextensions.k8s.io/{version}", "kind": "ConversionReview", "request": request}


@pytest.mark.parametrize(
    ("given", "to", "made"),
    [
        pytest.param({"hostPort": "localhost:1234"}, "v1", {"host": "localhost", "port": "1234"}, id="the page"),
        pytest.param({"host": "localhost", "port": "1234"}, "v1beta1", {"hostPort": "localhost:1234"}, id="and back"),
        pytest.param({"hostPort": "[::1]:80"}, "v1", {"host": "[::1]", "port": "80"}, id="more colons"),
        pytest.param({}, "v1", {}, id="without a host"),
        pytest.param({}, "v1beta1", {}, id="without a host, back"),
        pytest.param({"host": "localhost"}, "v1beta1", {"hostPort": "localhost:"}, id="no port"),
        pytest.param({"hostPort": "localhost:"}, "v1", {"host": "localhost"}, id="no port, back"),
        pytest.param({"port": "80"}, "v1beta1", {"hostPort": ":80"}, id="no host"),
    ],
)
def test_fields(given: dict[str, Any], to: str, made: dict[str, Any]) -> None:
    present = {"v1": "v1beta1", "v1beta1": "v1"}[to]
    response = webhook.answer(review(crontab(present, **given), to=f"example.com/{to}"))["response"]
    assert response["result"] == {"status": "Success"}
    assert response["convertedObjects"] == [crontab(to, **made)]


def test_objects_of_several_versions_keep_their_order() -> None:
    """The page: one or more objects, in one or more versions."""
    asked = review(crontab("v1beta1", hostPort="a:1"), crontab("v1", host="b", port="2"), crontab("v1beta1", hostPort="c:3"))
    made = webhook.answer(asked)["response"]["convertedObjects"]
    assert [(obj["apiVersion"], obj["host"], obj["port"]) for obj in made] == [
        ("example.com/v1", "a", "1"),
        ("example.com/v1", "b", "2"),
        ("example.com/v1", "c", "3"),
    ]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_answer_has_the_version_and_the_uid_of_the_question(version: str) -> None:
    answer = webhook.answer(review(version=version))
    assert answer == {
        "apiVersion": f"apiextensions.k8s.io/{version}",
        "kind": "ConversionReview",
        "response": {"uid": "705ab4f5", "convertedObjects": [], "result": {"status": "Success"}},
    }


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param(
            review(crontab("v1beta1", hostPort="nonsense")),
            "hostPort could not be parsed into a separate host and port",
            id="no port",
        ),
        pytest.param(review(crontab("v1beta1"), to="example.com/v2"), "unexpected conversion from v1beta1 to v2", id="to v2"),
        pytest.param(review(crontab("v3")), "unexpected conversion from v3 to v1", id="from v3"),
        pytest.param(review(crontab("v1beta1", hostPort=80)), "the object is not of its schema: ", id="a number"),
        pytest.param(review({"kind": "CronTab"}), "the object is not of its schema: KeyError('apiVersion')", id="no apiVersion"),
        pytest.param(review("text"), "the object is not of its schema: ", id="no object"),
        pytest.param(review(to=None), "the request needs desiredAPIVersion and objects", id="no version"),
    ],
)
def test_what_can_t_be_converted(asked: dict[str, Any], message: str) -> None:
    response = webhook.answer(asked)["response"]
    assert response["uid"] == "705ab4f5"
    assert response["result"]["status"] == "Failure"
    assert response["result"]["message"].startswith(message)
    assert "convertedObjects" not in response


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, ssl.SSLContext]]:
    """(its port, a context that trusts it)."""
    authority = Authority(tmp_path_factory.mktemp("webhook"), "ca")
    pair = authority.server("webhook", ["127.0.0.1"])
    made = webhook.Server(("127.0.0.1", 0), str(pair.certificate), str(pair.key))
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made.server_port, ssl.create_default_context(cafile=str(authority.pair.certificate))
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


@pytest.fixture
def connection(server: tuple[int, ssl.SSLContext]) -> Iterator[http.client.HTTPSConnection]:
    port, context = server
    made = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=HANG_SECONDS)
    yield made
    made.close()


def post(connection: http.client.HTTPSConnection, body: bytes, path: str = "/crdconvert") -> tuple[int, bytes]:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read()


def test_reviews_on_one_connection(connection: http.client.HTTPSConnection) -> None:
    body = json.dumps(review(crontab("v1beta1", hostPort="a:1"))).encode()
    first, socket = post(connection, body), connection.sock
    assert first == post(connection, body)
    assert connection.sock is socket
    assert first[0] == 200
    assert json.loads(first[1])["response"]["convertedObjects"][0]["host"] == "a"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"{", b"Expecting property name", id="no JSON"),
        pytest.param(b"\xff", b"can't decode byte", id="no UTF-8"),
        pytest.param(b"[" * 100_000, b"while decoding a JSON array", id="nested"),
        pytest.param(b"[]", b"this is no ConversionReview\n", id="a list"),
        pytest.param(b'{"kind":"AdmissionReview"}', b"this is no ConversionReview\n", id="another kind"),
        pytest.param(
            b'{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v2"}',
            b"ConversionReview apiextensions.k8s.io/v2 is not known, only apiextensions.k8s.io/v1 and ",
            id="another version",
        ),
        pytest.param(
            b'{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1"}',
            b"the ConversionReview has no request\n",
            id="no request",
        ),
    ],
)
def test_bodies_that_are_no_reviews(connection: http.client.HTTPSConnection, body: bytes, said: bytes) -> None:
    status, text = post(connection, body)
    assert status == 400
    assert said in text
    assert post(connection, json.dumps(review()).encode())[0] == 200  # the connection is as good as before


@pytest.mark.parametrize(
    ("path", "status"),
    [("/crdconvert?timeout=30s", 200), ("/", 404), ("/crdconvert/more", 404)],
    ids=["timeout", "root", "below"],
)
def test_paths(connection: http.client.HTTPSConnection, path: str, status: int) -> None:
    """kube-apiserver adds its timeout as a query."""
    body = json.dumps(review()).encode()
    assert post(connection, body, path)[0] == status
    assert post(connection, body)[0] == 200


def test_a_body_that_is_too_long_is_not_read(connection: http.client.HTTPSConnection) -> None:
    connection.putrequest("POST", "/crdconvert")
    connection.putheader("Content-Length", str(1 << 40))
    connection.endheaders()
    assert connection.getresponse().status == 413


def test_the_definition_names_the_webhook() -> None:
    definition = yaml.safe_load((EXAMPLES / "my-versioned-crontab-with-conversion.yaml").read_text())
    conversion = definition["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"]["url"].endswith(f":9443{webhook.PATH}")
    assert [f"apiextensions.k8s.io/{name}" for name in conversion["webhook"]["conversionReviewVersions"]] == list(
        webhook.REVIEW_VERSIONS
    )
