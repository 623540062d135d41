"""The resource that makes resources: CustomResourceDefinitions, from a folder or from the server's own API, to what is served.

`definition.py`, `validation.py` and `conditions.py` decide, and are pure; the rest acts.
Called by `app.py`, which wires it; knows nothing of sockets and of who asks.
"""
