"""Changing objects: patches and server-side apply, as functions from an object and a change to a new object.

Pure: nothing here changes its arguments, and errors are values of the package's own exceptions,
which the handlers turn into statuses.
"""
