"""What users touch: datasets, fragments, writing and committing."""
