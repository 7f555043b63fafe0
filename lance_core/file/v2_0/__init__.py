"""Reading and writing the columns of files of format 2.0."""
