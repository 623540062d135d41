"""From the host's objects of a definition to ours: read all, then every write, until the switch."""
