"""Verbs that delete rows and add others in one version: replaces rows."""
