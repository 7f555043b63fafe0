"""Metadata of one table version: records, their serialized form, and the locations of files.

Start with ``manifest``, the metadata of a version, and ``version_log``, which finds, reads and creates versions.
``manifest_file`` has the bytes, ``manifest_draft`` (with ``draft_content``) builds the next version, ``feature_flags``
says what it demands of others, ``old_writers`` corrects what old releases wrote. A ``fragment`` has files
(``data_file``, ``fragment_files``, ``overlay_files``) and deleted rows (``deletion_file``, ``deletion_vector``). The
modules ``row_*``, ``moved_rows`` and ``version_runs`` are about stable row ids and lineage; ``index_*``,
``rewritten_indices``, ``fragment_reuse`` and ``mem_wal`` about indices; ``base_*`` and ``inner_bases`` about base
paths; ``branches``, ``lines``, ``refs`` and ``ref_*`` about tags and branches. ``paths`` has the names of all files.
How a version is created depends on the store: ``commit_protocols/``, ``manifest_stores/``.
"""
