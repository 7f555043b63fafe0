"""What every operation of :class:`~lance_core.api.operations.LanceOperation` shares."""

from __future__ import annotations

from abc import ABC

from lance_core.api.fragment_metadata import FragmentMetadata
from lance_core.errors import InvalidTypeError

__all__ = ["BaseOperation", "check_fragments"]


class BaseOperation(ABC):  # noqa: B024  # a marker, as in the reference
    """Base of every operation."""


def check_fragments(fragments: object) -> None:
    """Check that fragments are a list of :class:`FragmentMetadata`.

    Raises:
        InvalidTypeError: they are not.
    """
    if not isinstance(fragments, list):
        raise InvalidTypeError(f"fragments must be list[FragmentMetadata], got {type(fragments)}")
    for fragment in fragments:
        if not isinstance(fragment, FragmentMetadata):
            raise InvalidTypeError(f"fragments must be list[FragmentMetadata], got {type(fragment)}")
