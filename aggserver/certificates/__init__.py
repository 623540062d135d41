"""The server's own certificates: making them, keeping them in a folder or a Secret, and renewing them in time.

Used where no certificate files are given. Handshakes are `server/tls.py`'s, and clients' certificates `authentication/x509.py`'s.
"""
