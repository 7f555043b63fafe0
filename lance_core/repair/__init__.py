"""The doctor: finds what crashed writers and old releases left in a table, and mends the former on request.

A table that cannot be opened is looked at, too.

========================  ============================================================================================
``findings``               what can be found, as records
``diagnosis``              looks at the names, ages and rows of a table; changes nothing
``unrecorded``            branches that have no record
``contents``               defects of old releases, and data files that are missing
``remedies``               one for each kind of finding
========================  ============================================================================================
"""

from lance_core.repair.diagnosis import DEFAULT_MIN_AGE, diagnose
from lance_core.repair.findings import Ailment, Finding
from lance_core.repair.remedies import mend

__all__ = ["DEFAULT_MIN_AGE", "Ailment", "Finding", "diagnose", "mend"]
