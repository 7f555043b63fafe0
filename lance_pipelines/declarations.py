"""The datasets of this project. Add yours here, or pass your own to ``build_definitions``."""

from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.settings import Settings

__all__ = ["default_declarations"]


def default_declarations(settings: Settings) -> tuple[DatasetDeclaration, ...]:
    """Return the declared datasets. By default, there is one dataset, which the job ``ingest`` creates."""
    return (
        DatasetDeclaration(
            key="installed_files",
            uri=settings.dataset_uri("installed_files"),
            source=FileSource(format=SourceFormat.ENVIRONMENT),
            history=settings.history_uri,
            description=(
                "All files of the Python packages installed in this environment: one row per file and snapshot. "
                "Each run appends a snapshot and creates one version. No input data is needed."
            ),
        ),
    )
