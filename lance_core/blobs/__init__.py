"""Values that are kept outside their columns: where they are, and how they are read."""
