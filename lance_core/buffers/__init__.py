"""Bytes in memory: bounds-checked reading and alignment. This package performs no I/O."""
