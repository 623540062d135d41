"""The contract of a virtual resource: what a server relies on in its functions, checked by calls of them. docs/sources.md has it.

check   `check_source`, which runs all of it
asked   the functions, called as a server calls them
reads   `list`, pages, `get`, selectors
writes  `create`, `update`, `delete`: compare and swap, dry runs, what is kept
feeds   `feed`: that a later list is what it began with and what it has told

No server runs: the functions are called through `aggserver/resources/source.py`, as a server does.
"""
