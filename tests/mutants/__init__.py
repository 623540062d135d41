"""Small changes of the code, and whether the unit tests notice: `make mutants PACKAGE=merge N=100`. Not a part of `make test`."""
