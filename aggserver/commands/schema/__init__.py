"""`aggserver schema`: prints the schema of a Python type, without a server. docs/python-types.md shows its output.

command   imports the module, prints the schema
"""
