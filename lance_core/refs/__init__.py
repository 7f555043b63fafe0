"""Tags, branches and clones: the verbs."""
