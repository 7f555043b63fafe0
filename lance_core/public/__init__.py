"""Public record classes, with the names and arguments of the reference implementation, and their conversions."""
