"""Why does the paper's head learn relays slower than a linear policy? Its design, one change after the other.

All routers have our training, the same episodes and the same step of the optimiser.
"""

from collections.abc import Mapping
from functools import partial

from selfwire.evals.studies.evomas.relays import ORACLE, RANDOM, RelayStudy, System, run_routers
from selfwire.evals.studies.gains import Claim, Scale
from selfwire.evals.studies.worlds import World
from selfwire.evolvers.trained_router.config import PAPER_HEAD, HeadConfig, TrainConfig

ROWS = PAPER_HEAD.replace(state="rows")
NO_BONUS = TrainConfig(entropy=0.0)
PAPER, PAPER_ROWS = "the paper's head", "the paper's head, rows"
IDENTITY, HEAD = "the paper's head, rows, from the identity", "the head: the same, normalised"
ADDITIVE, LINEAR = "the head, additive attention", "linear"
SYSTEMS: Mapping[str, System] = {
    PAPER: System(PAPER_HEAD),
    f"{PAPER}, no entropy bonus": System(PAPER_HEAD, NO_BONUS),
    PAPER_ROWS: System(ROWS),
    f"{PAPER_ROWS}, no entropy bonus": System(ROWS, NO_BONUS),
    IDENTITY: System(ROWS.replace(init="identity")),
    HEAD: System(),
    f"{HEAD}, no entropy bonus": System(training=NO_BONUS),
    ADDITIVE: System(HeadConfig(design="additive")),
    LINEAR: System(HeadConfig(design="linear")),
}
STUDY = RelayStudy(routers="heads")
SCALE = Scale("solved", RANDOM, ORACLE, LINEAR)
WORLD = World(
    STUDY,
    partial(run_routers, STUDY, SYSTEMS),
    scale=SCALE,
    claims=(
        Claim("rows in place of words", PAPER, PAPER_ROWS),
        Claim("no entropy bonus, rows", PAPER_ROWS, f"{PAPER_ROWS}, no entropy bonus"),
        Claim("start at the identity", PAPER_ROWS, IDENTITY),
        Claim("layer normalisation", IDENTITY, HEAD),
        Claim("no softmax over agents", HEAD, ADDITIVE),
        Claim("no values and no cosine", ADDITIVE, LINEAR),
    ),
)
