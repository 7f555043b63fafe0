"""The definitions loaded by ``dagster -m lance_pipelines.definitions``."""

from lance_pipelines.build import build_definitions

defs = build_definitions()
