"""Step 2 of a request: who sent it. Front proxy, client certificate, bearer token or anonymous; permissions are step 3."""
