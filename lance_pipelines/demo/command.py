"""``lance-pipelines demo``: run the demonstration; the exit code tells whether every check passed."""

import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console

from lance_core.errors import LanceError
from lance_pipelines.demo.dev_server import DevServer
from lance_pipelines.demo.snapshot import print_comparison
from lance_pipelines.demo.story import Story
from lance_pipelines.settings import Settings

__all__ = ["demo"]


@click.command()
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Empty directory for the datasets and the instance, which are kept. By default, a temporary directory.",
)
@click.option("--ingests", type=click.IntRange(min=10), default=20, show_default=True, help="Number of batches.")
@click.option("--rows", type=click.IntRange(min=500), default=500, show_default=True, help="Number of rows per batch.")
@click.option(
    "--port", type=click.IntRange(min=0, max=65535), default=0, help="Port of the web server; 0 for a free port."
)
@click.option("--stay", is_flag=True, help="Keep the server running after the demonstration, until Ctrl-C.")
def demo(directory: Path | None, ingests: int, rows: int, port: int, stay: bool) -> None:
    """Ingest and delete rows, then watch the sensors maintain two datasets.

    Starts a real `dagster dev` with a separate instance. The demonstration takes two to ten minutes and ends with
    tables that compare the numbers of versions, fragments, files, and bytes before and after maintenance. The exit code
    is 0 if every check passed, and 1 if the demonstration failed.
    """
    # When the demonstration is terminated, its processes are terminated too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    console = Console(highlight=False)
    started = time.monotonic()

    def tell(line: str) -> None:
        console.print(f"[dim]{time.monotonic() - started:6.0f} s[/dim]  {line}", soft_wrap=True)

    try:
        with ExitStack() as stack:
            if directory is None:
                place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lance-pipelines-demo-")))
            else:
                place = _empty_directory(directory)
            warehouse = place / "warehouse"
            warehouse.mkdir()
            settings = Settings(warehouse=str(warehouse))
            server = stack.enter_context(DevServer(place, warehouse=warehouse, port=port))
            tell(f"dagster dev is running at {server.url}")
            story = Story(server, settings, tell=tell, num_ingests=ingests, rows_per_ingest=rows)
            outcome = story.run()
            for dataset, before in outcome.before.items():
                print_comparison(console, dataset, before, outcome.after[dataset])
            console.print(f"Maintenance history:\n{outcome.history}", soft_wrap=True, markup=False)
            console.print(f"Demonstration passed: {len(outcome.checks)} checks in {time.monotonic() - started:.0f} s.")
            if stay:
                console.print(f"The web interface is at {server.url}; press Ctrl-C to stop.")
                _wait_for_interrupt()
    except (LanceError, OSError) as error:
        console.print(f"[red]Demonstration failed:[/red] {error}", soft_wrap=True)
        sys.exit(1)


def _empty_directory(directory: Path) -> Path:
    place = directory.expanduser().absolute()
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        raise click.BadParameter(f"directory {place} is not empty", param_hint="--directory")
    return place


def _wait_for_interrupt() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return
