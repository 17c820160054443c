"""The clusters of a dataset in other people's formats: Parquet, HDF5 and `.clust`; and from `.clust` to a dataset."""

from cluster_store.formats.clust_layout import ClustLayout
from cluster_store.formats.export import FORMATS, Exported, export_clusters, import_clusters

__all__ = ["FORMATS", "ClustLayout", "Exported", "export_clusters", "import_clusters"]
