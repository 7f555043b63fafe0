"""Writes rows to data files and fragments.

Start with ``write``, which stages rows and commits them. ``request`` checks the arguments, ``data_input`` converts the
input to a stream of batches, ``target`` chooses the schema, the file version, and the directories, and
``fragment_writer`` splits the stream into files by number of rows and bytes.
"""
