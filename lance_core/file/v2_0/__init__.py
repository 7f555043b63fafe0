"""Reads and writes the columns of files of format 2.0."""
