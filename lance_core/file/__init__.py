"""One ``.lance`` data file of format 2.1+: its container, and reading and writing rows."""
