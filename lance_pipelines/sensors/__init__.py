"""Sensors: they look at the datasets and ask for runs."""
