"""External manifest stores: databases with one row for each version of a table, accessed through one protocol."""
