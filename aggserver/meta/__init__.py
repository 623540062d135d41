"""The API machinery: errors and field paths, codecs, versions, names, metadata, selectors, JSONPath.

Used by all other packages. Pure: no I/O, no clock, no randomness; where these are needed, they are passed in.
"""
