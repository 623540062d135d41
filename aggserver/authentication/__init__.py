"""Step 2 of a request: who sent it, by front proxy, client certificate or bearer token, or anonymous. Permissions are step 3."""
