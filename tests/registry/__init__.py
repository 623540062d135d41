"""Tests of registry/. They share the stores of world.py."""
