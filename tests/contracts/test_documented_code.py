"""Tests run every code block in the README and the guides, unless a comment gives a reason not to."""

from tests.support.documentation import ROOT, all_blocks

RUNNERS = {
    ("README.md", "bash"): "tests/dagster/test_documented_code.py",
    ("README.md", "python"): "tests/dagster/test_documented_code.py",
    ("README.md", "yaml"): "tests/dagster/test_documented_code.py",
    ("docs/guides/add-to-your-dagster-project.md", "bash"): "tests/dagster/test_documented_code.py",
    ("docs/guides/add-to-your-dagster-project.md", "python"): "tests/dagster/test_components.py",
    ("docs/guides/blobs.md", "python"): "tests/unit/test_guide_examples.py",
    ("docs/guides/branches.md", "python"): "tests/unit/test_guide_examples.py",
    ("docs/guides/change-columns.md", "python"): "tests/unit/test_guide_examples.py",
    ("docs/guides/change-rows.md", "python"): "tests/unit/test_guide_examples.py",
    ("docs/guides/checks-and-health.md", "bash"): "tests/dagster/test_documented_code.py",
    ("docs/guides/checks-and-health.md", "python"): "tests/dagster/test_documented_code.py",
    ("docs/guides/command-line.md", "bash"): "tests/unit/test_guide_examples.py",
    ("docs/guides/command-line.md", "python"): "tests/unit/test_guide_examples.py",
    ("docs/guides/declare-datasets.md", "python"): "tests/dagster/test_components.py",
    ("docs/guides/declare-datasets.md", "yaml"): "tests/dagster/test_components.py",
    ("docs/guides/doctor.md", "bash"): "tests/dagster/test_documented_code.py",
    ("docs/guides/doctor.md", "python"): "tests/unit/test_guide_examples.py",
    ("docs/guides/indices.md", "bash"): "tests/dagster/test_index_guide.py",
    ("docs/guides/indices.md", "python"): "tests/dagster/test_index_guide.py",
    ("docs/guides/indices.md", "yaml"): "tests/dagster/test_index_guide.py",
    ("docs/guides/ingest-your-own-files.md", "python"): "tests/dagster/test_guides.py",
    ("docs/guides/ingest-your-own-files.md", "yaml"): "tests/dagster/test_guides.py",
    ("docs/guides/io-manager.md", "bash"): "tests/dagster/test_documented_code.py",
    ("docs/guides/io-manager.md", "python"): "tests/dagster/test_io_manager_guide.py",
    ("docs/guides/maintenance.md", "bash"): "tests/dagster/test_documented_code.py",
    ("docs/guides/maintenance.md", "python"): "tests/dagster/test_maintenance_guide.py",
    ("docs/guides/maintenance.md", "yaml"): "tests/dagster/test_maintenance_guide.py",
    ("docs/guides/object-stores.md", "python"): "tests/unit/test_guide_examples.py",
    ("docs/guides/partitions.md", "bash"): "tests/dagster/test_documented_code.py",
    ("docs/guides/partitions.md", "python"): "tests/dagster/test_documented_code.py",
    ("docs/guides/publish.md", "bash"): "tests/dagster/test_documented_code.py",
    ("docs/guides/publish.md", "python"): "tests/dagster/test_documented_code.py",
    ("docs/guides/publish.md", "yaml"): "tests/dagster/test_documented_code.py",
    ("docs/guides/read-tables.md", "python"): "tests/unit/test_guide_examples.py",
    ("docs/guides/run-it.md", "bash"): "tests/dagster/test_documented_code.py",
    ("docs/guides/run-it.md", "python"): "tests/dagster/test_deployment_examples.py",
    ("docs/guides/sensors.md", "python"): "tests/dagster/test_sensors_guide.py",
    ("docs/guides/spark-sessions.md", "bash"): "tests/dagster/test_documented_code.py",
    ("docs/guides/spark-sessions.md", "python"): "tests/dagster/test_documented_code.py",
    ("docs/guides/spark-verbs.md", "python"): "tests/spark/test_verbs_guide.py",
    ("docs/guides/spark.md", "python"): "tests/spark/test_guide.py",
    ("docs/guides/ui.md", "bash"): "tests/dagster/test_documented_code.py",
    ("docs/guides/watch-maintenance.md", "bash"): "tests/dagster/test_documented_code.py",
    ("docs/guides/watch-maintenance.md", "python"): "tests/dagster/test_documented_code.py",
    ("docs/guides/watch-maintenance.md", "yaml"): "tests/dagster/test_documented_code.py",
}
"""Page and language -> the test that runs the blocks. Tests of several pages name each of them."""

MOST_BLOCKS_NOT_RUN = 3


def test_every_code_block_is_run_by_a_test_or_states_why_it_is_not_run() -> None:
    assert {(block.page, block.language) for block in all_blocks() if block.reason is None} == set(RUNNERS)
    for (page, _), test in RUNNERS.items():
        text = (ROOT / test).read_text()
        assert page.rpartition("/")[2] in text or "all_blocks" in text, f"{test} does not run the blocks of {page}"


def test_number_of_code_blocks_that_are_not_run_stays_within_a_small_limit() -> None:
    assert len([block for block in all_blocks() if block.reason is not None]) <= MOST_BLOCKS_NOT_RUN
