"""Kubernetes' sample-apiserver, beside which manifests/examples/python/wardle.py is compared and measured."""
