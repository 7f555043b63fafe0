"""One module per arm of ``PageLayout``, and what they share."""
