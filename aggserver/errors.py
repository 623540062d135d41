"""AggserverError: the root of all errors that a person can do something about.

Their text alone says what is wrong: a wrong option, a file that can't be read, a store in use, an API server that is down. The
command line catches the root, prints the text in one line, and exits with `exit_status`. Any other exception that reaches it is a
bug, and ends with its traceback.

The branches are made by the packages: StatusError (`meta/errors.py`, what a client is answered), StorageError
(`storage/interface.py`), ClusterError, Unreachable and ConfigurationError (`cluster/`), CertificateError and TrustError
(`authentication/`), TLSError (`server/tls.py`), FileError (`disk.py`), and what is wrong with the input of a command.

Outside of the tree: ValueErrors of parsers, which don't know where their text came from, so that the caller raises one of these
instead; and exceptions that a package raises and catches itself.
"""

from __future__ import annotations

__all__ = ["AggserverError"]


class AggserverError(Exception):
    """`str()` is the text for the person: one line, without the program's name.

    exit_status: that of a command which ends with this error. 2 is for a command that was given something wrong, and so did
    nothing.
    """

    exit_status = 1
