"""Step 5 of a request: mutate, then validate, the object to be written. Admission plugins do not access the storage."""
