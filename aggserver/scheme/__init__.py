"""Go's types of the kinds that Kubernetes itself has: one table says what their JSON, their protobuf and their error texts are.

`tables/` declares the types, `types.py` reads them, and each other module derives one thing from them. Pure. It knows no rule of
any kind, but for metadata, which all kinds have (`object_meta.py`): what a member means is for whoever owns the kind.
"""
