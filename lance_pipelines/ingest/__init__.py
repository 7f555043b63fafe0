"""Declaring, staging, verifying and committing datasets. No Spark, no Dagster."""
