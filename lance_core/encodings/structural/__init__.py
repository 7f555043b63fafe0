"""Page layouts: one module per arm of ``PageLayout``, and shared code."""
