"""Columns of format 2.0: which fields own one, how they are read and how they are written."""
