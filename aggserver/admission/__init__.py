"""Step 5 of a request: mutate, then validate, what is about to be written. Decides by policy, never by storage."""
