"""`aggserver new NAME`: writes the three files of a new project: an App, its test, a Dockerfile."""
