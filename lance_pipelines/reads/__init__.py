"""Reads of a step: which version is read (``pins``), and how it is protected while the step runs (``held_leases``)."""
