"""Fields, ids and logical types."""
