"""AggserverError: the root of all errors that a person can do something about.

Their text alone says what is wrong: a wrong option, a file that can't be read, a store in use, an API server that is down. The
command line catches the root, prints the text in one line, and exits with `exit_status`. Any other exception that reaches it is a
bug, and ends with its traceback.

The packages define the branches: StatusError (`meta/errors.py`, an answer to a client), StorageError
(`storage/interface.py`), ClusterError, Unreachable and ConfigurationError (`cluster/`), CertificateError and TrustError
(`authentication/`), TLSError (`server/tls.py`), FileError (`disk.py`), and errors in the input of a command.

Outside of the tree are ValueErrors of parsers, which don't know where their text came from, so that their callers raise an
AggserverError instead; and exceptions that a package raises and catches itself.
"""

from __future__ import annotations

__all__ = ["AggserverError"]


class AggserverError(Exception):
    """An error that a person can do something about. `str()` is the text for that person: one line, without the program's name.

    exit_status: that of a command that ends with this error. 2 is for wrong input, with which the command did nothing.
    """

    exit_status = 1
