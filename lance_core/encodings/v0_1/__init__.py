"""Pages of format 0.1: plain, binary and list offsets; dictionaries and statistics. No page keeps validity."""
