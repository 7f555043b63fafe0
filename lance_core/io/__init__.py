"""Places that keep bytes: local files and memory, behind one protocol."""
