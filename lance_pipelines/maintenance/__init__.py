"""Maintenance: policies, table health, plans, commits and reports. No Dagster, no Spark."""
