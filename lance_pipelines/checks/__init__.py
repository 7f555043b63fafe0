"""Checks of a dataset, which Dagster shows with its asset.

``rules`` has one function per check; it needs neither Dagster nor Spark. ``subject`` is the version that a rule
examines, ``unique_keys`` finds duplicate keys in bounded memory, ``evaluation`` runs the checks in a step, and
``asset_checks`` and ``audit_version`` create the Dagster definitions.
"""
