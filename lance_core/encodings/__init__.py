"""Page encodings of format 2.1 and later: convert arrays to pages and back."""
