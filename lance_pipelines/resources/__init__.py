"""The Dagster resources that the steps use."""
