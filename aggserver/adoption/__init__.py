"""Adoption: definitions of the host cluster, and their objects, move to this server while clients go on, and can go back.

wants, steps   what is wanted of each family of definitions, and what comes next for it
moves          the phases of a move; mover takes one after the other
host, status   what is read of the host, and what people are told
records        what is known of each move; copy, switch, give_back and leftovers are its parts
"""
