"""Storage: the interface of a key-value store with one revision counter (`interface.py`), its backends, and the watch cache."""
