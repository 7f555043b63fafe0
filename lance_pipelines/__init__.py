"""Lance datasets as Dagster assets: Spark writes the fragments, and a commit creates the version.

Declare datasets with ``ingest.declaration`` and ``maintenance.policy``; ``build`` turns the declarations into Dagster
definitions, and ``definitions`` is the module that Dagster loads. ``ingest`` and ``maintenance`` contain the rules and
use neither Spark nor Dagster; ``spark`` contains the parallel work and does not use Dagster. ``assets``, ``ops``,
``jobs``, ``sensors``, ``schedules``, ``automation``, and ``resources`` contain one Dagster concept each. ``events``
creates and reads the events that Dagster records for commits, and ``runs`` checks the state of other runs. ``cli`` runs
the maintenance jobs without a server (``command_runs``) and starts the ``demo``. ``settings`` reads the project's
environment variables.
"""
