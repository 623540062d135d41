"""The server's reports about itself: health checks, metrics, its version, and the paths where these are served.

This package counts requests and asks other packages for their state; it never decides how a request is answered.
"""
