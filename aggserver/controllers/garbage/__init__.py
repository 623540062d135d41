"""The garbage collector: objects go when their owners are gone.

owner_graph    who owns whom; graph_builder keeps it up to date
decisions      what is done with an object. Both know no store
collector      does it
"""
