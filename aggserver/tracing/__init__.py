"""What happens to one request, and how long each part of it takes: for the log of slow requests, for metrics, and for traces.

The parts of a request are recorded in memory while it runs (`record.py`), which costs a fraction of a microsecond for each. What
is done with them is decided when it has ended. OpenTelemetry is imported by one module, and only where it is configured.
"""
