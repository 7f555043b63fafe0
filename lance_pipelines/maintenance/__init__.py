"""Rules of maintenance: policies, health of a table, plans and their reports. No Dagster, no Spark."""
