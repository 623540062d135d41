"""What is kept: a store of keys and bytes with one revision counter (`interface.py`), its backends, and the watch cache over
them.
"""
