"""Fields, field ids, and logical types."""
