"""The assets: one per declared dataset."""
