"""Sensors, which examine the datasets at intervals and request runs or report commits; ``all_sensors`` lists them.

Each ``…_sensor`` module is one sensor. ``compaction_sensor``, ``deletion_sensor``, ``index_sensor``, and
``cleanup_sensor`` only check whether their work is due: ``maintenance_sensor`` creates the sensors, ``run_requests``
implements their tick, and ``attempts`` determines the outcome of earlier requests. ``version_sensor`` reports commits
by other programs; for this purpose, ``catch_up`` follows the versions of a dataset. ``latest`` lists these versions,
``cursor`` serializes the state that a sensor keeps from tick to tick, and ``tick_budget`` limits the time of a tick.
Automation conditions are evaluated by other sensors; see ``automation`` in the parent package.
"""
