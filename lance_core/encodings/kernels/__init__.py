"""Algorithms on numpy arrays: no protobuf, no policy; Arrow only where its kernels are the fastest mover."""
