"""The command ``lance-pipelines``: runs maintenance jobs and checks without a server, and a demonstration.

Each command runs the corresponding Dagster job inside its own process, with the same steps, checks, and events. If
``DAGSTER_HOME`` is set, the run is recorded in that Dagster instance and waits for the instance's pools. Otherwise, the
run is not recorded, and only its commit remains. Dagster and Spark are imported only by the commands that need them,
not for ``--help``.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["main"]

_Function = TypeVar("_Function", bound="Callable[..., Any]")

_DEFAULT_MODULE: Final = "lance_pipelines.definitions"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lance-pipelines")
def main() -> None:
    """Maintain and check Lance datasets."""


_COMMON_OPTIONS: Final = (
    click.option("--dataset", metavar="KEY", help="Asset key of the dataset; optional if only one is declared."),
    click.option("--uri", help="Location of the dataset; by default, the declared location."),
    click.option("-v", "--verbose", is_flag=True, help="Show the log of the run."),
    click.option(
        "-m", "--module", default=_DEFAULT_MODULE, show_default=True, help="Python module with the Dagster definitions."
    ),
)

_DRY_RUN: Final = (click.option("--dry-run", is_flag=True, help="Print the plan and change nothing."),)

_REWRITE_OPTIONS: Final = (
    click.option(
        "--threshold",
        type=click.FloatRange(0, 1, max_open=True),
        help="Rewrite fragments in which more than this fraction of the rows is deleted (0 to 1).",
    ),
    click.option(
        "--target-rows",
        "target_rows_per_fragment",
        type=click.IntRange(min=1),
        help="Target number of rows per fragment.",
    ),
    click.option(
        "--target-bytes",
        "target_bytes_per_fragment",
        type=click.IntRange(min=0),
        help="Approximate target size of a fragment in bytes; larger fragments are not merged. 0 for no limit.",
    ),
    click.option(
        "--max-source-bytes",
        type=click.IntRange(min=0),
        help="Maximum number of bytes that this run reads, unless its smallest task reads more; 0 for no limit.",
    ),
    click.option(
        "--max-duration",
        metavar="DURATION",
        help="Time after which the run starts to rewrite no further group of fragments, for example 90m or 2h; a plain "
        "number means seconds, and 0 means no limit.",
    ),
    click.option(
        "--batch-size",
        type=click.IntRange(min=0),
        help="Maximum number of rows that a task reads at a time; 0 for the default.",
    ),
    click.option(
        "--spark-config", multiple=True, metavar="NAME=VALUE", help="Spark property, for example spark.master=local[4]."
    ),
)


def _options(*groups: tuple[Callable[[_Function], _Function], ...]) -> Callable[[_Function], _Function]:
    """Return a decorator that adds all options of the groups, in the order in which help shows them."""

    def decorate(function: _Function) -> _Function:
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return decorate


@main.command()
@click.option(
    "--materialize-deletions/--no-materialize-deletions",
    default=None,
    help="Whether to also rewrite large fragments whose fraction of deleted rows exceeds the threshold.",
)
@_options(_REWRITE_OPTIONS, _COMMON_OPTIONS, _DRY_RUN)
def compact(**arguments: Any) -> None:
    """Merge small fragments into fewer large ones. The rows do not change."""
    _run("compact", **arguments)


@main.command()
@_options(_REWRITE_OPTIONS, _COMMON_OPTIONS, _DRY_RUN)
def materialize_deletions(**arguments: Any) -> None:
    """Rewrite fragments with many deleted rows to drop those rows. The remaining rows do not change."""
    _run("materialize_deletions", **arguments)


@main.command()
@click.option(
    "--retain-versions", type=click.IntRange(min=1), help="Keep this many of the newest versions, regardless of age."
)
@click.option(
    "--older-than",
    metavar="DURATION",
    help="Keep all versions newer than this age: 14d, 36h, or a number of seconds.",
)
@click.option(
    "--min-age",
    metavar="DURATION",
    help="Keep all versions newer than this age, even if --older-than is shorter; 10m unless the policy sets it.",
)
@click.option(
    "--delete-unverified",
    is_flag=True,
    default=None,
    help="Also delete recent files that no version references; use only if no other process is writing to the dataset.",
)
@_options(_COMMON_OPTIONS, _DRY_RUN)
def cleanup(**arguments: Any) -> None:
    """Remove old versions, the files that only they use, and leftovers of crashed writers.

    Versions that a tag, branch, or lease refers to are kept.
    """
    _run("cleanup", **arguments)


_PLAN_DIGEST: Final = (
    click.option(
        "--plan-digest", help="Digest of the plan that a dry run printed; the run fails if its own plan differs."
    ),
)

_DELETE_OPTIONS: Final = (
    click.option("--as-of", metavar="TIME", help="Value of now() in the predicate; by default, the current time."),
    *_PLAN_DIGEST,
)


@main.command()
@click.argument("predicate")
@_options(_DELETE_OPTIONS, _COMMON_OPTIONS, _DRY_RUN)
def delete_rows(**arguments: Any) -> None:
    """Delete the rows for which PREDICATE, a SQL expression, is true."""
    _run("delete_rows", **arguments)


@main.command()
@_options(_DELETE_OPTIONS, _COMMON_OPTIONS, _DRY_RUN)
def retention(**arguments: Any) -> None:
    """Delete the rows that have expired according to the declared retention rule."""
    _run("retention", **arguments)


_INDEX_OPTIONS: Final = (
    click.option("--name", "names", multiple=True, help="Name of an index; can be repeated. By default, all indices."),
    *_PLAN_DIGEST,
)


@main.command()
@click.option("--replace", is_flag=True, default=None, help="Also rebuild indices that already exist.")
@_options(_INDEX_OPTIONS, _COMMON_OPTIONS, _DRY_RUN)
def build_index(*, names: tuple[str, ...], **arguments: Any) -> None:
    """Build the declared indices. Requires the optional extra "pylance"."""
    _run("build_index", names=list(names) or None, **arguments)


@main.command()
@click.option(
    "--retrain",
    is_flag=True,
    default=None,
    help="Retrain vector indices on all rows, with their recorded parameters.",
)
@_options(_INDEX_OPTIONS, _COMMON_OPTIONS, _DRY_RUN)
def optimize_indices(*, names: tuple[str, ...], **arguments: Any) -> None:
    """Bring all indices up to date, and build declared ones that are missing. Requires the optional extra "pylance"."""
    _run("optimize_indices", names=list(names) or None, **arguments)


@main.command()
@click.argument("version", type=click.IntRange(min=1))
@_options(_COMMON_OPTIONS, _DRY_RUN)
def restore(**arguments: Any) -> None:
    """Restore the content of VERSION as a new version. Later versions are kept."""
    _run("restore", **arguments)


@main.command()
@click.option("--version", type=click.IntRange(min=1), help="The version to examine; by default, the latest one.")
@click.option("--pages", is_flag=True, help="Also read all values.")
@_options(_COMMON_OPTIONS)
def verify(**arguments: Any) -> None:
    """Examine all files of a version, the manifests of all versions, and tags, branches, and indices.

    The exit code is 1 if anything is wrong.
    """
    _run("verify", **arguments)


@main.command()
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Check to evaluate; can be repeated. By default, all checks are evaluated.",
)
@click.option("--version", type=click.IntRange(min=1), help="The version to check; by default, the latest one.")
@_options(_COMMON_OPTIONS)
def check(*, only: tuple[str, ...], **arguments: Any) -> None:
    """Evaluate the checks of a dataset. The exit code is 1 if a check of severity "error" fails."""
    _run("check", only=list(only) or None, **arguments)


@main.command()
@click.option(
    "--version",
    type=click.IntRange(min=1),
    help="The version to publish, which may be an older one; by default, the latest.",
)
@_options(_COMMON_OPTIONS, _DRY_RUN)
def promote(**arguments: Any) -> None:
    """Check a version and, if it passes, move the dataset's tag to it."""
    _run("promote", **arguments)


@main.command()
@click.argument("uri", required=False)
@click.option("--dataset", metavar="KEY", help="Show only runs for the dataset with this asset key.")
@click.option("--job", metavar="NAME", help="Show only runs of this job, for example compact.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Maximum number of runs; the latest runs are shown first.",
)
def history(*, uri: str | None, dataset: str | None, job: str | None, limit: int) -> None:
    """Show what maintenance runs did and cost.

    URI is the location of the history; by default, the one in the warehouse.
    """
    from lance_core.errors import LanceError
    from lance_pipelines.ingest.declaration import dataset_name
    from lance_pipelines.maintenance.history import read_history, render_history
    from lance_pipelines.settings import Settings

    try:
        name = None if dataset is None else dataset_name(dataset)
        entries = read_history(
            uri or Settings.from_environment().history_uri, dataset=name, job=job and job.replace("-", "_"), limit=limit
        )
    except LanceError as error:
        raise click.ClickException(error.message) from error
    click.echo(render_history(entries), nl=False)


@main.command()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Anyone who can connect can run arbitrary code.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=15002,
    show_default=True,
    help="Port to listen on; 0 for any free port.",
)
@click.option(
    "--spark-config", multiple=True, metavar="NAME=VALUE", help="Spark property, for example spark.driver.memory=4g."
)
def spark_connect(*, host: str, port: int, spark_config: tuple[str, ...]) -> None:
    """Run a Spark Connect server until Ctrl-C. Runs that use SparkResource(remote=URL) share this server."""
    settings = dict(map(_setting, spark_config))
    from lance_core.errors import LanceError
    from lance_pipelines.spark.connect_server import connect_server
    from lance_pipelines.spark.interruption import raise_on_termination

    try:
        with raise_on_termination(), connect_server(settings, host=host, port=port) as server:
            click.echo(f"{server.url} is ready; press Ctrl-C to stop the server")
            sys.exit(server.wait())
    except KeyboardInterrupt:
        sys.exit(0)
    except LanceError as error:
        raise click.ClickException(error.message) from error


@main.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(arguments: tuple[str, ...]) -> None:
    """Demonstrate ingest and maintenance with a real ``dagster dev``."""
    from lance_pipelines.demo.command import demo as command

    command.main(args=list(arguments), prog_name="lance-pipelines demo")


def _run(
    operation: str,
    *,
    module: str,
    dataset: str | None,
    verbose: bool,
    spark_config: tuple[str, ...] = (),
    **values: Any,
) -> None:
    settings = dict(map(_setting, spark_config))
    with _no_garbage():
        from lance_pipelines.command_runs import run_operation

    failures = run_operation(operation, values, module=module, dataset=dataset, spark_config=settings, verbose=verbose)
    for failure in failures:
        click.echo(f"FAILED {failure}", err=True)
    sys.exit(1 if failures else 0)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Disable garbage collection while the block imports modules, which saves a sixth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Later collections do not need to examine the modules either.
        gc.freeze()
        if was_enabled:
            gc.enable()


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise click.BadParameter(f"{text!r} must have the form NAME=VALUE", param_hint="--spark-config")
    return name, value
