"""From a change to a version: what is checked first, how it is committed, and which error its outcome is."""
