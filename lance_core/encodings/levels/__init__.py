"""Repetition and definition levels."""
