"""Adoption: definitions of the host cluster, and their objects, move to this server while clients go on, and can go back.

`record.py` is what is known of one move.
"""
