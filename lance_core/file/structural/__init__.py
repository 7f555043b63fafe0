"""Reading and writing the columns of structural files: formats 2.1 and 2.2."""
