"""What exists: one asset per declared dataset."""
