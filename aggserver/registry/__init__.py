"""Step 6 of a request: what a resource does.

Reads and writes of objects over a store, by the rules of their strategy; never HTTP.
"""
