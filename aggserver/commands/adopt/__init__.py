"""`aggserver adopt`: looks at the host before an adoption, shows what is adopted, and asks for a release or a cleanup.

command   reads and writes the host
plan      what a plan says, from what was read
follow    what is said of a release or a cleanup while it goes on
report    plans and states as text
"""
