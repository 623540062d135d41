"""The functions that expressions may call, a file for each library of upstream, by the ids of their overloads.

An implementation gets arguments of the types that its overload declares (`declarations.py`), and raises EvaluationError.
"""
