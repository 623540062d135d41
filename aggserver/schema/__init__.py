"""Structural schemas, and how values are pruned, defaulted and validated by them.

Functions over plain JSON objects and compiled schemas. Pure: no I/O, no clock; they mutate nothing but the value passed in.
`apiextensions/` uses them for definitions, `registry/` for objects, `merge/` for both.
"""
