"""The life of a value under its structural schema: pruned, defaulted, checked.

Functions over plain JSON objects and compiled schemas. Pure: no I/O, no clock; they change nothing but the value they are given.
Called by `apiextensions/` (definitions), `registry/` (objects) and `merge/`.
"""
