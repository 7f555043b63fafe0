"""One ``.lance`` data file: its container, and reading and writing rows."""
