"""Stage ``idmap``: where every node and edge of the input went, and rows put in its order or back."""

from partition_ops.stages.idmap.export import export_id_maps
from partition_ops.stages.idmap.restore import apply_rows, restore_rows
from partition_ops.stages.idmap.row_files import RowFile

__all__ = ["RowFile", "apply_rows", "export_id_maps", "restore_rows"]
