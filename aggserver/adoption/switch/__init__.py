"""Which server gets the requests: APIServices, and the webhooks by which the host refuses writes meanwhile."""
