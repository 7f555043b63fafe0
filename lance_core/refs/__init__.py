"""Tags, branches and clones: creating, changing and removing them."""
