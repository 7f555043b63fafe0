"""The resources of the steps."""
