"""Conversion of objects between the versions of a resource. Knows nothing of stores or requests."""
