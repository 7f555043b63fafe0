"""Reads and writes data files in format 0.1 ("legacy")."""
