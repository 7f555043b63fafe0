"""What ``dagster -m lance_pipelines.definitions`` loads."""

from lance_pipelines.build import build_definitions

defs = build_definitions()
