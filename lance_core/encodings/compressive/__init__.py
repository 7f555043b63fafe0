"""Each module implements one arm of ``CompressiveEncoding`` and is named after it."""
