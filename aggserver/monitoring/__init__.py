"""What a server reports about itself: health checks, metrics, its version, and the paths they are served at.

Counts requests and asks others for their state; never decides how a request is answered.
"""
