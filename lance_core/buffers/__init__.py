"""Bytes in memory: bounds-checked reading and alignment. No I/O."""
