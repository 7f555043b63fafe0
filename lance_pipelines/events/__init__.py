"""What Dagster records of a dataset: the event of each commit, its metadata and its data version.

``commit_events`` makes the events and ``asset_metadata`` their metadata. ``data_version`` determines the data version
from the history of the dataset, of which ``found_version`` is one version. Where that history was cleaned up,
``recorded_versions`` determines it from earlier events.
"""
