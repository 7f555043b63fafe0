"""The data source ``lance``: reads and writes tables through Spark's own readers and writers.

``registration`` makes it available in a session, and ``source`` is what Spark calls: ``reader`` and ``stream_reader``
for reads, with ``pushdown`` for filters, and ``writer`` and ``stream_writer`` for writes, with ``staged_write`` for
what they share, and ``epochs`` for exactly-once streams. ``options`` lists the options, and ``location`` opens
versions.
"""
