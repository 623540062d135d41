"""Step 4 of a request: which verb, on which resource; and its answer. HTTP ends here: what lies below knows none of it."""
