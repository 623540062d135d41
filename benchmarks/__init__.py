"""The benchmarks: aggserver and kube-apiserver under the same load, in one run on one machine.

`python -m benchmarks` runs them; docs/benchmarks.md has the method and the results. The server is started as its users start it;
only benchmarks.cel imports parts of it.
"""
