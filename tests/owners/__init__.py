"""Random histories of writes, and who owns which field after each: the same requests to kube-apiserver and to aggserver.

`schemas.py` makes definitions and values that fit them more or less, `steps.py` the requests of a history. `playing.py` sends
them to both servers and compares, `shrinking.py` finds the fewest requests that still disagree, `histories.py` does all that for
one definition. `tests/integration/test_same_owners.py` runs some hundreds of histories, `python -m tests.owners` (`make fuzz`) as
many as there is time for.

Left out is what kube-apiserver does not do well: an apply on /scale that changes it (500), and one that says an item of a list
without any member, and so none of its keys, twice (the list is null then).
"""
