"""Apps that tests serve, by `--app tests.integration.apps.NAME:app`. Their sources are in the folder of the server."""
