"""The built-in kinds of a server without a cluster: Pods, Secrets, Deployments and the others that operators use.

`catalog.py` has the differences between them as data; `served.py` serves each kind from its first request on.
"""
