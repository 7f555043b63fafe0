"""The Spark layer: sessions, sources, and frames written as fragments. No Dagster."""
