"""The commands beside the servers: a package for each. None of them knows another."""
