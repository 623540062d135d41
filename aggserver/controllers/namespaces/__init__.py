"""Namespaces: emptied when they are deleted, and the objects that each has from its beginning."""
