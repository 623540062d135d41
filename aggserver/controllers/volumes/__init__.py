"""PersistentVolumes and their claims: binds them, and protects them from deletion while they are used, by finalizers."""
