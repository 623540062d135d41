"""Fakes of the seams: a cluster, a clock. They behave; they don't record what was expected of them."""
