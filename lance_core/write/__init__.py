"""Writes rows to data files and fragments.

Start with ``write``, which stages rows and commits them. ``request`` checks the arguments, ``data_input`` converts the
input to a stream of batches, ``target`` chooses the schema and the file version, ``fragment_writer`` splits the stream
into files by number of rows and bytes, and ``new_data_file`` names and writes one file. ``external_blobs`` stores
references to blob values given as URIs, or copies the values.
"""
