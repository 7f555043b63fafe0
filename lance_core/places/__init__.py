"""The location of a dataset, and the resolution of references to its versions."""
