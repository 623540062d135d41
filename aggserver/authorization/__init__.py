"""Step 3 of a request: whether the user is allowed to make it. The hosting cluster decides or, without one, our own RBAC."""
