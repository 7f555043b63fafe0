"""Data files of format 0.1 ("legacy")."""
