"""The garbage collector: deletes objects whose owners are gone.

owner_graph    who owns whom; graph_builder keeps it up to date
decisions      what to do with an object. None of these uses a store
collector      reads and writes the store
"""
