"""Namespaces: empties those that are deleted, and creates the objects that each one has from its beginning."""
