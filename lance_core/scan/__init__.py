"""Reading versions: projections, scans, takes, row ids, and the handle that all verbs start from."""
