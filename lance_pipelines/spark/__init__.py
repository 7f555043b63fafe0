"""The Spark layer: what runs in parallel, and the session for it. No Dagster.

``staging`` is the entry: ``stage_write`` reads a source (``sources``, ``environment_inventory``) and writes it
(``schema``, ``conform``, ``writer``); ``rewrite_tasks`` rewrites fragments (``rewriter``). ``leftovers`` removes the
files of failed jobs, ``owned_jobs`` and ``interruption`` end jobs that nobody waits for, ``failures`` converts Spark's
exceptions, and ``session`` starts and stops Spark with the Java that ``java`` finds.
"""
