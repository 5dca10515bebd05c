"""Stage ``idmap``: where every node and edge of the input went."""

from partition_ops.idmap.export import export_id_maps

__all__ = ["export_id_maps"]
