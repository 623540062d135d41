"""Go's types of Kubernetes' built-in kinds: one table determines their JSON, protobuf, OpenAPI, checks and decoding errors.

`tables/` declares the types, `types.py` reads them, and each other module derives one thing from them. The package has no
validation rules except for metadata, which all kinds have (`object_meta.py`), and for single members (`validation.py`); the
package that serves a kind has the rest. Pure.
"""
