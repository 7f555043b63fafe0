"""Kernels compiled by numba: plain loops over arrays, without protobuf, Arrow or policy.

Importing a module of this package imports numba, so only ``kernels/loading.py`` imports them, once
enough bytes have passed through the numpy implementations. A compiled function has no bounds checks. Whoever calls one
has either checked every position, or calls a function that does so itself and says so.
"""
