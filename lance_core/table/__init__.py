"""Metadata of one table version: records, their serialized form, and the locations of files.

Start with ``manifest``, the metadata of a version, and ``version_log``, which finds, reads, and creates versions.
``manifest_file`` reads and writes the file, ``manifest_draft`` (with ``draft_content``) builds the next version,
``feature_flags`` determines which features a program must support, and ``old_writers`` corrects errors of old releases.
A ``fragment`` has files (``data_file``, ``fragment_files``, ``overlay_files``) and deleted rows (``deletion_file``,
``deletion_vector``). The modules ``row_*``, ``moved_rows``, and ``version_runs`` handle stable row ids and lineage;
``index_*``, ``rewritten_indices``, ``fragment_reuse``, and ``mem_wal`` handle indices; ``base_*`` and ``inner_bases``
handle base paths; ``branches``, ``tags``, ``lines``, and ``ref_*`` handle tags and branches. ``paths`` defines the
names of all files. ``commit_protocols/`` and ``manifest_stores/`` create versions on different kinds of stores.
"""
