"""`aggserver cel`: checks and runs CEL expressions and the rules of a definition, without a server. docs/cel.md shows its output.

command   reads the files, does what the flags ask for, and makes a report
places    the nodes of a schema, as `--at` names them
report    the report as text
"""
