"""RetentionRule: which rows of a dataset expire, and when they are deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from lance_core.errors import InvalidInputError
from lance_pipelines.maintenance.fixed_time import fixed_predicate, random_function

__all__ = ["RetentionRule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """A rule by which rows expire. The job ``retention`` deletes expired rows.

    Attributes:
        predicate: SQL condition that is true for expired rows: ``event_time < now() - interval '90 days'``. ``now()``
            is the time of the run's plan, in UTC.
        cron_schedule: when the job's schedule runs it, in UTC.
        running: whether the schedule runs by default; otherwise, it must be started in the web interface.
    """

    predicate: str
    cron_schedule: str = "0 1 * * *"
    running: bool = False

    def __post_init__(self) -> None:
        predicate: object = self.predicate
        if not isinstance(predicate, str) or not predicate.strip():
            raise InvalidInputError(f"retention: the predicate must be a SQL condition, found {predicate!r:.80}")
        random = random_function(predicate)
        if random is not None:
            raise InvalidInputError(
                f"retention: the predicate {predicate!r} calls {random}(), so a plan and its execution would select "
                "different rows"
            )
        try:
            fixed_predicate(predicate, datetime.now(UTC))
        except InvalidInputError as error:
            raise InvalidInputError(f"retention: predicate {predicate!r}: {error}") from error
