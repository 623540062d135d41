"""The composition root, which puts a running server together. Only `cli.py` and tests import it.

engine       what all modes share: resources over a storage, and the chain of filters in front of them
standalone   `aggserver dev`: definitions and namespaces of its own, no cluster
aggregated   `aggserver serve`: definitions from a folder, behind a cluster's aggregation layer

storage      the storage that the options ask for
tasks        background tasks, restarted when they fail
"""
