"""One module per arm of ``CompressiveEncoding``, named like the arm."""
