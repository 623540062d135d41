"""Resources: kinds of API objects that are written in Python. docs/python.md is the users' page.

app          `App`: what a user's module declares; nothing runs before the server starts it
virtual      `Virtual`: the functions of one resource whose objects are kept elsewhere
requests     what functions get
events       what feeds and watches tell
errors       what functions raise
calls        how functions are called: in a pool or on the loop, with a deadline, timed
source       the functions of a virtual resource as operations on JSON objects
mirror       a `Storage` in memory that follows a source; watches and lists come from it
following    polls and feeds: how a mirror comes to know what is in its source
store        the verbs of a virtual resource: with a mirror, or by a call of the source each time
passing      the same for a source that has revisions itself, with a watch for each request
host         the hosting cluster, asked with the rights of a user
host_informer  a copy of some of its objects, by a watch with the server's own rights
needs        the rights that an App needs there, as rules of RBAC; rights: asks whether they are there
serving      an App as a part of a server

Source of the rules: Kubernetes' conventions for APIs, and what extension servers before this one got wrong (docs/python.md).
"""
