"""Runs the command ``lance-pipelines`` as ``python -m lance_pipelines``."""

from lance_pipelines.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main(prog_name="lance-pipelines")
