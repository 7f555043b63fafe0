"""Reading and writing data files of format 0.1 ("legacy")."""
