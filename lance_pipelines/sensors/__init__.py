"""Sensors, which examine the datasets at intervals and request runs or report commits; ``all_sensors`` lists them.

Each ``…_sensor`` module is one sensor. ``compaction_sensor``, ``deletion_sensor`` and ``cleanup_sensor`` contribute
only the check whether their work is due: ``maintenance_sensor`` makes the sensors, and their tick is in
``run_requests``, with the outcome of earlier requests in ``attempts``. ``version_sensor`` reports commits by other
programs, for which ``catch_up`` follows the versions of a dataset. ``latest`` lists these versions, and ``cursor`` is
what a sensor keeps from tick to tick. The sensor for automation conditions is in ``automation`` of the parent package.
"""
