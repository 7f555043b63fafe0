"""What is declared, staged, verified and committed. No Spark, no Dagster."""
