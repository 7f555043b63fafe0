"""What steps are handed to work with."""
