"""`aggserver doctor`: what is wrong with an installation, seen from kube-apiserver, and the command that mends each thing.

`gather.py` reads the cluster, with a limit on each request; nothing is changed there but access reviews, which are not kept.
`found.py` says what was read, and `finding.py` what a check says. The checks are pure functions from the one to the other:
`reach.py` (APIServices, Service, endpoints, network), `pods.py`, `trust.py` (certificates, ConfigMap, clocks), `rights.py` (RBAC,
admission policy), `moves.py` (definitions, adoption). `report.py` prints.
"""
