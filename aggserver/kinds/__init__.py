"""The built-in kinds of a server without a cluster: Pods, Secrets, Deployments and the rest of what operators use.

`catalog.py` has what differs between them as data, `served.py` serves them, each from its first request on.
"""
