"""Write policy: decides how pages are encoded. Pure decisions; the encodings carry them out."""
