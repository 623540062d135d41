"""Admission plugins of kube-apiserver for the built-in kinds."""
