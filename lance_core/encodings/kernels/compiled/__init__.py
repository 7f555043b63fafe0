"""Kernels compiled by numba: plain loops over arrays, without protobuf, Arrow or policy.

Importing a module of this package imports numba, so only ``kernels/loading.py`` imports these modules, after the numpy
implementations have processed enough bytes. A compiled function has no bounds checks. The caller must check every
position first, unless the function documents that it does so itself.
"""
