"""Upgrades from versions that are out: their data folders and their code, kept small, and how these were made."""
