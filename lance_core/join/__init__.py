"""Finds rows by keys of any type: hashes and comparison of key columns, and an index of the rows that have each key."""
