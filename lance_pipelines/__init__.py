"""Lance datasets as Dagster assets: Spark writes the fragments, a commit creates the version.

Declare datasets with ``ingest.declaration`` and ``maintenance.policy``; ``build`` turns the declarations into the
definitions that ``definitions`` holds for Dagster. ``ingest`` and ``maintenance`` contain the rules, without Spark and
Dagster, and ``spark`` the parallel work, without Dagster. ``assets``, ``ops``, ``jobs``, ``sensors``, ``schedules``,
``automation`` and ``resources`` hold one Dagster concept each. ``events`` is what Dagster records of commits, ``runs``
what is known of other runs. ``cli`` runs the maintenance jobs without a server (``command_runs``) and starts the
``demo``. ``settings`` alone reads the environment.
"""
