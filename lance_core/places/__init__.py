"""Resolves the location of a dataset, and references to its versions."""
