"""`aggserver manifests`: what a cluster needs to run an App. It needs no cluster.

command   reads the options, prints the objects as YAML
objects   the objects
roles     what users of the App's resources may do, by the verbs that there are
"""
