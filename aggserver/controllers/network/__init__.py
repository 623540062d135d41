"""Endpoints and EndpointSlices: of Services that select Pods, and mirrored from Endpoints that clients write."""
