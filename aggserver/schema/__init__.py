"""Structural schemas, and what is done with values under them: pruning, defaulting, validation.

Functions over plain JSON objects and compiled schemas. Pure: no I/O, no clock; they mutate nothing but the value passed in.
`apiextensions/` uses them for definitions, `registry/` for objects, `merge/` for both.
"""
