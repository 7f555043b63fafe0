"""The Dagster assets: of each declared dataset, its published version, and its maintenance; and of the fleet."""
