"""Metadata of one table version: records, their bytes, and where files are found."""
