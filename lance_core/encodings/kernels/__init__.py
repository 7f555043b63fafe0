"""Algorithms on numpy arrays, independent of protobuf and policy. Arrow is used only where its kernels are fastest."""
