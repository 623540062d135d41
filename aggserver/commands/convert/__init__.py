"""`aggserver convert`: converts objects by the rules of a definition, and checks the rules, without a server. docs/conversion.md
shows its output.

command   reads the files, converts or checks
report    the report of a check as text
"""
