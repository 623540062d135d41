"""Whose requests are: APIServices, and the webhooks by which the host refuses writes meanwhile."""
