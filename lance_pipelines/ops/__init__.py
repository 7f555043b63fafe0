"""The steps of a run. Each step's module contains one op, or two: one plans an operation, and the other executes it.

Each step reads its configuration (``ingest_config``, ``maintenance_config``), calls ``ingest``, ``maintenance``, or
``spark``, and reports. ``planning_step`` builds the steps that plan maintenance, and ``commit_step`` those that
commit it; ``run_entry`` waits for other runs, ``failures`` converts errors, and ``output`` prints.
"""
