"""Locates and reads blob values, which are stored outside their columns."""
