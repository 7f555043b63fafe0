"""The state of other runs: whether they are in flight, dead, or silent.

Sensors and jobs wait for runs in flight (``runs_in_flight``). A run whose process was killed is marked as failed
(``dead_runs``); a run that cannot be checked, and has been silent for too long, is ignored (``silent_runs``).
"""
