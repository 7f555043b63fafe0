"""Write policy: what a page becomes. Pure decisions; the encodings do the work."""
