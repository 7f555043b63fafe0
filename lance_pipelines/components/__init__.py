"""LanceDatasetComponent: datasets that are declared in a ``defs.yaml``, for projects made with ``dg``.

``lance_dataset`` is the component, ``yaml_types`` translates the types of a declaration's fields to YAML, and
``scaffolder`` writes the file that ``dg scaffold defs`` creates. Every ``dg`` command imports this package, in every
project of the environment; therefore it imports Spark only to build definitions.
"""

from lance_pipelines.components.lance_dataset import LanceDatasetComponent

__all__ = ["LanceDatasetComponent"]
