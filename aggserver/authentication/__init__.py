"""Step 2 of a request: who asks. Front proxy, client certificate, bearer token, or nobody; never what they may do."""
