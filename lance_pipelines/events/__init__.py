"""The Dagster events of a dataset: the event for each commit, its metadata, and its data version.

``commit_events`` creates the events, and ``asset_metadata`` creates their metadata. ``data_version`` determines the
data version from the history of the dataset; ``found_version`` describes one version of that history. If a cleanup has
removed the versions needed for this, ``recorded_versions`` determines the data version from earlier events.
"""
