"""Lance datasets as Dagster assets: Spark writes the fragments, a commit creates the version."""
