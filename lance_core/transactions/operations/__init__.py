"""What a transaction does: one module per operation that can be executed."""
