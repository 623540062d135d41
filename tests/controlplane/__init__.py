"""A real Kubernetes control plane on loopback: etcd, kube-apiserver with its aggregator, and the controller manager.

Built from the Go modules that go.mod and go.sum name, once, into a cache; started in seconds; nothing is left behind when it
ends. The session fixtures of tests/conftest.py, the benchmarks and a person (`python -m tests.controlplane up`) use the same
class, tests.controlplane.plane.ControlPlane.
"""
