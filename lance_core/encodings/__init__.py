"""Page encodings of 2.1 and later: arrays to pages and back."""
