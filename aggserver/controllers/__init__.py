"""Controllers of a server without a cluster: docs/controllers.md lists them."""
