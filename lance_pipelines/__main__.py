"""Runs the command ``lance-pipelines``, also as ``python -m lance_pipelines``."""

import sys

__all__ = ["run"]


def run() -> None:
    """Run the command; if the packages of the extra ``pipelines`` are missing, say how to install them."""
    try:
        from lance_pipelines.cli import main
    except ModuleNotFoundError as error:
        sys.exit(f"lance-pipelines requires the package {error.name}: pip install 'lance-pipelines[pipelines]'")
    main(prog_name="lance-pipelines")


if __name__ == "__main__":
    run()
