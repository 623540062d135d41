"""Step 3 of a request: may they. Asked of the hosting cluster, or answered here where there is none; never who they are."""
