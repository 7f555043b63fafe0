"""The steps of a run. Each module contains one op, or two: an op that plans an operation, and an op that executes it.

Each step reads its configuration (``ingest_config``, ``maintenance_config``), calls ``ingest``, ``maintenance`` or
``spark``, and reports. ``plan_outputs`` is shared by the steps that plan, and ``commit_settings`` by the steps that
commit; ``run_entry`` waits for other runs, ``failures`` converts errors, and ``output`` prints.
"""
