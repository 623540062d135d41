"""Protects PersistentVolumes and their claims from deletion while they are used, by finalizers."""
