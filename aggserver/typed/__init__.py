"""Typed: the Python types of users as structural schemas, and objects as instances of these types. docs/python-types.md is the
users' page.

metadata, quantity, markers   what a user's class may name: Metadata, Quantity, and what stands in Annotated
schema                        `of`: a type -> its schema and its codec, or all that is wrong with it
codec                         objects to instances and back; `Draft` writes back only what has changed
reader                        annotations -> shapes: a schema, and how to decode and encode one value
classes                       the fields of a class; the doors read those of pydantic, msgspec and attrs
json_schema                   JSON Schema as tools print it -> a structural schema

Knows no resources, stores and requests: `schema.of` and the `Codec` in its result are all that the packages above call.
"""
