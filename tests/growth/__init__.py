"""Inputs that grow: what any part of the server does with a text must not take more than in proportion to its length."""
