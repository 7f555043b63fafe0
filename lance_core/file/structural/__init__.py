"""Reads and writes the columns of files in the structural formats, 2.1 and 2.2."""
