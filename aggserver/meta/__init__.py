"""The words of the API machinery: errors and their field paths, codecs, versions, names, metadata, selectors, JSONPath.

Used by every other package. Pure: no I/O, no clock, no randomness of its own; what is needed of them is passed in.
"""
