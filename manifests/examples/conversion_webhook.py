"""A conversion webhook for the CronTabs of my-versioned-crontab-with-conversion.yaml, with nothing but Python's standard library.

    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
        -keyout tls.key -out tls.crt
    python3 conversion_webhook.py --certificate tls.crt --key tls.key

The API server posts a ConversionReview: objects, and the version that it wants them in. It is answered with the same objects in
that version, in the same order, or with the reason why that can't be. For objects of your own replace `convert`.
"""

from __future__ import annotations

import argparse
import json
import ssl
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATH = "/crdconvert"
# Versions of ConversionReview; the answer has that of the question.
REVIEW_VERSIONS = ("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1")
# Bytes of a review. An API server converts a page of a list at once, so this is far more than one object can have.
MAX_BODY = 256 * 1024 * 1024
# Seconds after which an idle connection is closed. API servers keep theirs, and ask again on the same one.
IDLE = 300

Object = dict[str, Any]


def convert(obj: Object, version: str) -> None:
    """Change a CronTab to `version`, in place: v1beta1 has `hostPort`, v1 has `host` and `port`.

    Raises ValueError with the reason if it can't be.
    """
    present = obj["apiVersion"].rpartition("/")[2]
    if (present, version) == ("v1beta1", "v1"):
        if "hostPort" in obj:
            host, colon, port = obj.pop("hostPort").rpartition(":")
            if not colon:
                raise ValueError("hostPort could not be parsed into a separate host and port")
            obj |= {name: value for name, value in (("host", host), ("port", port)) if value}
    elif (present, version) == ("v1", "v1beta1"):
        if "host" in obj or "port" in obj:
            obj["hostPort"] = f"{obj.pop('host', '')}:{obj.pop('port', '')}"
    elif present != version:
        raise ValueError(f"unexpected conversion from {present} to {version}")


def answer(review: Object, convert: Callable[[Object, str], None] = convert) -> Object:
    """The ConversionReview with the response to this one.

    Raises ValueError if it is no ConversionReview that could be answered.
    """
    if not isinstance(review, dict) or review.get("kind") != "ConversionReview":
        raise ValueError("this is no ConversionReview")
    if review.get("apiVersion") not in REVIEW_VERSIONS:
        raise ValueError(f"ConversionReview {review.get('apiVersion')} is not known, only {' and '.join(REVIEW_VERSIONS)}")
    request = review.get("request")
    if not isinstance(request, dict) or "uid" not in request:
        raise ValueError("the ConversionReview has no request")
    response: Object = {"uid": request["uid"]}
    try:
        response["convertedObjects"] = _converted(request, convert)
        response["result"] = {"status": "Success"}
    except ValueError as error:
        response["result"] = {"status": "Failure", "message": str(error)}
    return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}


def _converted(request: Object, convert: Callable[[Object, str], None]) -> list[Object]:
    """All objects, or none: one that can't be converted fails the review."""
    wanted, objects = request.get("desiredAPIVersion"), request.get("objects")
    if not isinstance(wanted, str) or not isinstance(objects, list):
        raise ValueError("the request needs desiredAPIVersion and objects")
    for obj in objects:
        try:
            convert(obj, wanted.rpartition("/")[2])
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"the object is not of its schema: {error!r}") from error
        obj["apiVersion"] = wanted
    return objects


class Handler(BaseHTTPRequestHandler):
    """One connection, with one request after the other."""

    protocol_version = "HTTP/1.1"  # which keeps connections open
    timeout = IDLE
    wbufsize = -1  # the head and the body in one segment
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer a ConversionReview with one, anything else with 4xx."""
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True  # the body is not read
            return self._send(413, "text/plain", f"a body of known length, of at most {MAX_BODY} bytes, is needed\n".encode())
        body = self.rfile.read(int(length))
        if self.path.partition("?")[0] != PATH:  # API servers add their timeout as a query
            return self._send(404, "text/plain", f"conversions are at {PATH}\n".encode())
        try:
            review = answer(json.loads(body))
        except (ValueError, RecursionError) as error:
            return self._send(400, "text/plain", f"{error}\n".encode())
        response = review["response"]
        count, result = len(response.get("convertedObjects", ())), response["result"]
        print(f"converted {count} objects" if result["status"] == "Success" else f"failed: {result['message']}", flush=True)
        return self._send(200, "application/json", json.dumps(review).encode())

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # the name in http.server
        """Say nothing of requests; `do_POST` prints what it made of each."""


class Server(ThreadingHTTPServer):
    """A thread for each connection, in which its handshake is too: a client that is slow there delays no other."""

    def __init__(self, address: tuple[str, int], certificate: str, key: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        super().__init__(address, Handler)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say in one line why a connection ended."""
        print(f"{client_address[0]}: {sys.exc_info()[1]!r}", file=sys.stderr, flush=True)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--certificate", required=True, metavar="FILE", help="the serving certificate, PEM")
    parser.add_argument("--key", required=True, metavar="FILE", help="its private key, PEM")
    parser.add_argument("--address", default="127.0.0.1", help="to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=9443, help="0: any that is free (default %(default)s)")
    options = parser.parse_args()
    server = Server((options.address, options.port), options.certificate, options.key)
    print(f"conversions are at https://{options.address}:{server.server_port}{PATH}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
