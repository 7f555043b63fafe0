"""Where a dataset is, and which of its versions is meant."""
