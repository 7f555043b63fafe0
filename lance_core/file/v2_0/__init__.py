"""Reads and writes the columns of files in format 2.0."""
