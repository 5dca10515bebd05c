"""Stage ``prepare``: the graph as a partitioner wants it."""

from partition_ops.artifacts import layout
from partition_ops.artifacts.stage import Stage, StageTask

STAGE = Stage(
    name="prepare",
    summary="write the graph for the engines, or as text for ParMETIS",
    description="""\
Write the graph to prepare/ below --output, for the engines or as text for ParMETIS.

parhip: graph.parhip, symmetric and without duplicates and self-loops, which the engines of this tool read.

parmetis: the text files <graph>_nodes.txt, <graph>_edges.txt and <graph>_stats.txt of the DGL guide, with the
node weights that --weights names, and <graph>_removed_edges.txt with the self-loops and the duplicates of any
edge type, in the columns of the edge file. pm_dglpart reads its files from the folder that it is started in:
  cd DIR/prepare && mpirun -np 4 partition-ops pm-dglpart <graph> 2
'partition-ops convert-partition --input-dir DIR/prepare …' reads what it writes there.""",
    config="partition_ops.stages.prepare.options:PrepareConfig",
    run="partition_ops.stages.prepare.prepare:prepare_graph",
    takes=("half_edges",),
    after=("schema",),
    optional="needs_graph",
    folders=("prepare",),
    tasks=(
        StageTask(
            layout.PREPARE_SCATTER,
            each="group",
            run="partition_ops.stages.prepare.spread:run_alone",
            scratch=True,
            passing=True,
        ),
        StageTask(
            layout.PREPARE_GATHER,
            each="range",
            run="partition_ops.stages.prepare.spread:run_alone",
            scratch=True,
            passing=True,
        ),
        StageTask("prepare", seconds="prepare"),
    ),
    cost="partition_ops.stages.prepare.cost:cost",
    remedy="Use --engine random, which needs no prepared graph.",
)
