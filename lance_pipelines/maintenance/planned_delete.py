"""The message between the steps of a delete: which rows, planned on which version."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

from lance_pipelines.maintenance.health import TableHealth

__all__ = ["PlannedDelete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDelete:
    """What the plan step decided.

    Attributes:
        delete_id: a UUID, the same for every attempt to commit this delete.
        dataset: the declaration's name.
        uri: the dataset's location.
        predicate: the rows to delete.
        before: statistics of the version planned on.
        run_id: the run that planned.
        step_key: the step of that run.
    """

    delete_id: str
    dataset: str
    uri: str
    predicate: str
    before: TableHealth
    run_id: str
    step_key: str

    def to_json(self) -> str:
        """Return the message as one JSON document."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the JSON document; the inverse of :meth:`to_json`."""
        document = json.loads(text)
        document["before"] = TableHealth(**document["before"])
        return cls(**document)
