"""From rows to data files and fragments."""
