"""The benchmarks: aggserver and kube-apiserver under the same load, in one run on one machine.

`python -m benchmarks` is the entrance; docs/benchmarks.md says how it is done and what came out. Nothing of aggserver is
imported here but by benchmarks.cel: it is started as its users start it.
"""
