"""The server's own certificates: making them, keeping them in a folder or a Secret, and renewing them in time.

Used if no certificate files are given. For handshakes see `server/tls.py`, for clients' certificates `authentication/x509.py`.
"""
