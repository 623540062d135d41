"""Fakes that tests use in place of a cluster, a clock, a network. They are working implementations, not mocks."""
