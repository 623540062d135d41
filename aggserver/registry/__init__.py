"""Step 6 of a request: what a resource does. Reads and writes objects in a store, by the rules of its strategy. Knows no HTTP."""
