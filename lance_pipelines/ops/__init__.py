"""The steps of a run, one module for each op or for a plan and its execution.

Each step reads its configuration (``ingest_config``, ``maintenance_config``), calls ``ingest``, ``maintenance`` or
``spark``, and reports. ``plan_outputs`` is common to the steps that plan, ``commit_steps`` to those that commit;
``run_entry`` waits for other runs, ``failures`` converts errors, and ``output`` prints.
"""
