"""Step 4 of a request: find the resource and the verb, and write the response. The packages below know nothing of HTTP."""
