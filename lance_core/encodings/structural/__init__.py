"""One module per arm of ``PageLayout``, and shared code."""
