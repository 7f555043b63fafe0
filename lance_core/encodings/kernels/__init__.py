"""Algorithms on numpy arrays: no protobuf and no policy; Arrow only where its kernels are fastest."""
