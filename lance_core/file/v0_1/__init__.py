"""Reads and writes data files of format 0.1 ("legacy")."""
