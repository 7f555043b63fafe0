"""External manifest stores: databases that hold one row for each version of a table, behind one protocol."""
