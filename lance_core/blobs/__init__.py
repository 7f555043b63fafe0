"""Values that are stored outside their columns: locating and reading them."""
