"""Page encodings of format 2.0: one module per arm of ``lance.encodings.ArrayEncoding``."""
