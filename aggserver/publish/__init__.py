"""What clients read about the API: discovery, OpenAPI and tables, as plain JSON objects or their bytes.

Pure: no I/O but the reading of this package's own data file, no clock; `now` is an argument. Knows nothing of storage or
requests.
Called by `endpoints/` (discovery, openapi, handlers).
"""
