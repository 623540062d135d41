"""Implementations of the functions, keyed by overload id, one file for each library of upstream.

An implementation receives arguments of the types that its overload declares (`declarations.py`), and raises EvaluationError.
"""
