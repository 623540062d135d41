"""The documents that describe the API and its objects: discovery, OpenAPI and tables, as plain JSON objects or encoded bytes.

Pure: no I/O except reading this package's own data file, no clock (`now` is an argument). Knows nothing of storage or requests.
"""
