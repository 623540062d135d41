"""Step 1 of a request, socket to scope: TLS, HTTP/1.1 and HTTP/2, certificates, health and metrics.

Knows sockets, certificates as bytes and ASGI applications; knows nothing of resources, users or storage.
"""
