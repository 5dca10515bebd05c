"""The verbs of the command line, one module each.

A module has ``NAME``, ``SUMMARY``, ``DESCRIPTION``, ``add_arguments(parser)`` and
``execute(arguments, console)``, which gives back what ``--json`` prints; a verb with verbs of its own has
``COMMANDS`` instead of the last two.
"""

from partition_ops.cli.verbs import (
    changes,
    convert,
    convert_partition,
    estimate,
    fetch,
    idmap,
    partition,
    pm_dglpart,
    prepare,
    probe,
    publish,
    quality,
    retain,
    run,
    schema,
    validate,
    verify,
)

COMMANDS = (
    run,
    estimate,
    validate,
    schema,
    prepare,
    partition,
    convert,
    idmap,
    quality,
    publish,
    verify,
    changes,
    retain,
    fetch,
    probe,
    pm_dglpart,
    convert_partition,
)
