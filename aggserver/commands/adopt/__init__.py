"""`aggserver adopt`: plans an adoption, shows what is adopted, and asks for a release or a cleanup.

command   reads and writes the host
plan      makes a plan of what was read
follow    the progress and outcome of a release or a cleanup
report    plans and states as text
"""
