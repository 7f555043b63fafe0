"""Verbs that delete rows and add others in one version: updates rows, and replaces rows.

``row_changes`` is what they share: it writes moved and added rows, and commits them together with deletions.
"""
