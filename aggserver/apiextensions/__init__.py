"""CustomResourceDefinitions, from a folder or the server's own API, and the resources that are served for them.

`definition.py`, `validation.py` and `conditions.py` decide, and are pure; the rest acts. The package knows nothing of sockets or
of users.
"""
