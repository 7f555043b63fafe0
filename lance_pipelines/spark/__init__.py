"""The Spark layer: what runs in parallel, and the session for it. It does not depend on Dagster.

``staging`` is the entry point: ``stage_write`` reads a source (``sources``, ``environment_inventory``) and writes it
(``schema``, ``conform``, ``writer``); ``rewrite_tasks`` rewrites fragments (``rewriter``). ``leftovers`` removes the
files of failed jobs, ``owned_jobs`` and ``interruption`` end jobs that nobody is waiting for, ``failures`` converts
Spark's exceptions, ``tasks`` executes independent tasks, and ``session`` starts and stops Spark with the Java that
``java`` finds. ``verbs`` changes tables without declarations.
"""
