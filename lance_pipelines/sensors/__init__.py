"""Sensors, which examine the datasets and request runs."""
