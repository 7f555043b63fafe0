"""The Dagster assets, one per declared dataset."""
