"""``partition-ops idmap VERB``."""

from partition_ops.cli.verbs import idmap_apply, idmap_carry_over, idmap_export, idmap_restore

NAME = "idmap"
SUMMARY = "export the ID maps, restore the original order"
DESCRIPTION = """\
Where every node and edge of the input went: 'export' writes it down, 'restore' puts embeddings that were
saved in new-ID order back into original order, 'apply' does the inverse, and 'carry-over' leads from the
new IDs of one run to those of another. Without a verb it means 'export'."""
DEFAULT = idmap_export.NAME
COMMANDS = (idmap_export, idmap_restore, idmap_apply, idmap_carry_over)
