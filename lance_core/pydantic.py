"""Schemas of Pydantic models; the names follow ``lance.pydantic``.

This public module requires Pydantic 2::

    from lance_core.pydantic import Vector, pydantic_to_schema

    class Document(pydantic.BaseModel):
        id: int
        text: str | None
        embedding: Vector(768)

    lance_core.LanceDataset.from_pydantic_model(Document, documents, "/data/documents")
"""

from __future__ import annotations

from lance_core.write.pydantic_models import (
    FixedSizeListMixin,
    MultiVector,
    Vector,
    get_extras,
    is_nullable,
    pydantic_to_schema,
)

__all__ = ["FixedSizeListMixin", "MultiVector", "Vector", "get_extras", "is_nullable", "pydantic_to_schema"]
