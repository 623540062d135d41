"""Heads of HTTP/1.1 as bytes, to which any server of a cluster has one answer: `test_http1.py` asks both."""

from __future__ import annotations

__all__ = ["DIFFERENT", "HEADS"]

_GET = b"GET /version HTTP/1.1\r\nHost: a\r\n"
_END = b"Connection: close\r\n\r\n"


def _host(*values: bytes) -> bytes:
    return b"GET /version HTTP/1.1\r\n" + b"".join(b"Host: %s\r\n" % value for value in values) + _END


def _version(text: bytes) -> bytes:
    return b"GET /version %s\r\nHost: a\r\n" % text + _END


HEADS = {
    "plain": _GET + _END,
    "host empty": _host(b""),
    "host with a port": _host(b"a:6443"),
    "host IPv6": _host(b"[::1]:6443"),
    "host with all that may": _host(b"!$%&'()*+,-.:;=[]_~"),
    "host missing": b"GET /version HTTP/1.1\r\n" + _END,
    "host twice": _host(b"a", b"b"),
    "host twice the same": _host(b"a", b"a"),
    "host with a blank": _host(b"a b"),
    "host with a slash": _host(b"a/b"),
    "host with a user": _host(b"me@a"),
    "host with quotes": _host(b'"a"'),
    "host with a control character": _host(b"a\x01"),
    "host with UTF-8": _host("ä".encode()),
    "a control character": _GET + b"a: b\x01c\r\n" + _END,
    "HTTP/1.0": _version(b"HTTP/1.0"),
    "HTTP/1.0 without a host": b"GET /version HTTP/1.0\r\n\r\n",
    "HTTP/1.0 with a bad host": b"GET /version HTTP/1.0\r\nHost: a/b\r\n\r\n",
    "HTTP/1.2": _version(b"HTTP/1.2"),
    "HTTP/1.2 without a host": b"GET /version HTTP/1.2\r\n" + _END,
    "HTTP/0.9": _version(b"HTTP/0.9"),
    "HTTP/2.0": _version(b"HTTP/2.0"),
    "HTTP/3.0": _version(b"HTTP/3.0"),
    "HTTP/9.9": _version(b"HTTP/9.9"),
    "HTTP/9.9 without a host": b"GET /version HTTP/9.9\r\n\r\n",
    "HTTP/11.1": _version(b"HTTP/11.1"),
    "http/1.1": _version(b"http/1.1"),
    "FTP/1.1": _version(b"FTP/1.1"),
    "no version": _version(b""),
    "no line": b"nonsense\r\n\r\n",
    "a header without a colon": _GET + b"nonsense\r\n" + _END,
    "a header with a blank in its name": _GET + b"a b: c\r\n" + _END,
    "a length that is none": _GET + b"Content-Length: x\r\n" + _END,
    "two lengths": _GET + b"Content-Length: 1\r\nContent-Length: 2\r\n" + _END + b"ab",
    "one length twice": _GET + b"Content-Length: 2\r\nContent-Length: 2\r\n" + _END + b"ab",
    "a list of one length": _GET + b"Content-Length: 2, 2\r\n" + _END + b"ab",
    "a list of one length in two lines": _GET + b"Content-Length: 2\r\n ,2\r\n" + _END + b"ab",
    "an unknown expectation": _GET + b"Expect: 200-ok\r\n" + _END,
    "an unknown expectation of HTTP/1.0": b"GET /version HTTP/1.0\r\nExpect: x\r\n\r\n",
    "an unknown expectation of a bad host": b"GET /version HTTP/1.1\r\nHost: a/b\r\nExpect: x\r\n" + _END,
    "an empty expectation": _GET + b"Expect:\r\n" + _END,
    **{
        f"{method} {path}": f"{method} {path} HTTP/1.1\r\nHost: a\r\n".encode() + _END
        for method, path in (
            ("get", "/version"),
            ("Get", "/healthz"),
            ("get", "/apis"),
            ("get", "/openapi/v2"),
            ("get", "/metrics"),
            ("get", "/api/v1/namespaces"),
            ("get", "/api/v1/namespaces/default"),
            ("head", "/api/v1/namespaces/default"),
            ("delete", "/api/v1/namespaces/default"),
            ("ODD", "/api/v1/namespaces"),
        )
    },
    "an unknown encoding": _GET + b"Transfer-Encoding: zip\r\n" + _END,
    "not found": b"GET /apis/none.example.com/v1/things HTTP/1.1\r\nHost: a\r\n" + _END,
    "not allowed": b"DELETE /api/v1/namespaces HTTP/1.1\r\nHost: a\r\n" + _END,
    "not acceptable": b"GET /apis HTTP/1.1\r\nHost: a\r\nAccept: image/png\r\n" + _END,
    "unsupported": b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Type: image/png\r\nContent-Length: 1\r\n"
    + _END
    + b"x",
    "unprocessable": (
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 30\r\n"
        + _END
        + b'{"metadata":{"name":"A"}}     '
    ),
    "forbidden": b"DELETE /api/v1/namespaces/default HTTP/1.1\r\nHost: a\r\n" + _END,
    "continue": (
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
        b"Expect: 100-continue\r\n" + _END + b"[]"
    ),
}

# Where ours is another: its status line, and why.
DIFFERENT = {
    "HTTP/1.0": (b"HTTP/1.1 200 OK", "h11 answers with the version that it speaks, as RFC 9110 has it"),
    "HTTP/1.0 without a host": (b"HTTP/1.1 200 OK", "likewise"),
    "an unknown expectation of HTTP/1.0": (b"HTTP/1.1 417 Expectation Failed", "likewise"),
    "get /version": (b"HTTP/1.1 405 Method Not Allowed", "in plain text, as with any other method"),
    **dict.fromkeys(
        ("Get /healthz", "get /apis", "get /openapi/v2", "get /metrics"),
        (b"HTTP/1.1 405 Method Not Allowed", "upstream's handlers of these documents do not look at the method"),
    ),
    "a header with a blank in its name": (b"HTTP/1.1 400 Bad Request", "h11 does not say what is wrong with a line"),
}
