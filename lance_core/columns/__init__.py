"""Changes the columns of a table: adds columns."""
