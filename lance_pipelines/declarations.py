"""The datasets of this project. Add yours here, or pass your own to ``build_definitions``."""

from lance_pipelines.ingest.declaration import DatasetDeclaration, SourceFormat, SourceSpec
from lance_pipelines.settings import Settings

__all__ = ["default_declarations"]


def default_declarations(settings: Settings) -> tuple[DatasetDeclaration, ...]:
    """The declared datasets; the job ``ingest`` makes the only one."""
    return (
        DatasetDeclaration(
            name="installed_files",
            uri=settings.dataset_uri("installed_files"),
            source=SourceSpec(format=SourceFormat.ENVIRONMENT),
            description=(
                "Every file that the Python packages of this environment installed: one row per file and snapshot. "
                "Each run appends a snapshot, so the dataset grows by one version a run and needs no input of yours."
            ),
        ),
    )
