"""Tests of resources/. They serve Apps by served.py."""
