"""Metadata of one table version: records, their serialized form, and the locations of files."""
