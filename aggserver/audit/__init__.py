"""Audit: which requests are recorded, what an event says, and where events go. What is between a request and this package is in
`endpoints/auditing.py`.
"""
