"""Pages in format 0.1: plain, binary and list offsets; dictionaries and statistics. Pages do not store validity."""
