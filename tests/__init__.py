"""The tests, in folders that mirror aggserver/. A package, so that shared helpers are imported as tests.<module>."""
