"""Debugging: what a running server says of itself to who may ask: its flags, its profile, its threads, its memory, its log level.

`pages.py` has the paths; they are authorized like all that are no resource.
"""
