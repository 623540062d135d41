"""CEL, the Common Expression Language, as Kubernetes has it: parse, check, estimate the cost, compile to Python.

Used by `schema` (validation rules) and `admission` (match conditions). Knows nothing of schemas or objects of Kubernetes:
types with fields come from a TypeProvider. Pure.
"""
