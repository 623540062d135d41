"""CustomResourceDefinitions, from a folder or the server's own API, and the resources that are served for them.

`definition.py`, `validation.py` and `conditions.py` make the decisions, and are pure; other modules carry them out. The package
knows nothing of sockets or of users.
"""
