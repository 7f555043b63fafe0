"""The doctor: finds problems left behind by crashed writers and by old releases, and repairs the former.

This is a public module::

    log = open_version_log("/data/points")  # of lance_core.metadata
    for problem in diagnose(log):
        if problem.is_repairable:
            repair(log, problem)

The doctor also works on a table that cannot be opened. It does not remove files that no version refers to, such as
files of uncommitted writes; a cleanup (:mod:`lance_core.cleanup`) removes them.

========================  ============================================================================================
``problems``              defines the problems that can be found
``diagnosis``             finds the problems of a table; changes nothing
``unrecorded``            finds branches that have no record
``contents``              finds defects caused by old releases, and missing data files
``repairs``               repairs each kind of problem
``validation``            compares the files of a version with its manifest
``verification``          finds everything that is wrong with a table and its versions
========================  ============================================================================================
"""

from lance_core.repair.diagnosis import DEFAULT_MIN_AGE, diagnose
from lance_core.repair.problems import Problem, ProblemKind
from lance_core.repair.repairs import repair
from lance_core.repair.validation import verify
from lance_core.repair.verification import Fault, find_faults, find_fragment_faults

__all__ = [
    "DEFAULT_MIN_AGE",
    "Fault",
    "Problem",
    "ProblemKind",
    "diagnose",
    "find_faults",
    "find_fragment_faults",
    "repair",
    "verify",
]
