"""Deletes rows and adds others in one version: updates rows, and replaces rows.

Start with ``update`` and ``replace``. ``new_values`` computes the values of an update, and ``row_changes`` writes the
moved rows, which keep their stable ids, and commits them.
"""
