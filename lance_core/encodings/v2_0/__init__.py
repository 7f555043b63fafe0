"""Page encodings of format 2.0: the arms of ``lance.encodings.ArrayEncoding``, one module each."""
