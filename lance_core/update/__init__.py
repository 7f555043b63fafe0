"""Verbs that delete rows and add others in one version: updates rows, and replaces rows."""
