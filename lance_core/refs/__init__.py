"""Creates, changes, and removes tags, branches, and clones."""
