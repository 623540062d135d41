"""Tests of registry/, and the small world of stores that they share (world.py)."""
