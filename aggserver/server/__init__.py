"""Step 1 of a request, from the socket to the ASGI scope: TLS, HTTP/1.1, HTTP/2, websockets, and a graceful stop.

This package knows sockets and ASGI applications, but nothing of resources, users or storage.
"""
