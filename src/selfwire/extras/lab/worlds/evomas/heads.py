"""Compare the paper's head with a linear policy on relays: its design, one change after the other.

All routers have our training, the same episodes and the same step of the optimiser.
"""

from collections.abc import Mapping

from selfwire.evolvers.router.config import PAPER_HEAD, HeadConfig, TrainConfig
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.evomas.relays import ORACLE, RANDOM, RelayStudy, RouterSystem, run_routers
from selfwire.extras.lab.worlds.gains import Scale

ROWS = PAPER_HEAD.replace(state="rows")
NO_BONUS = TrainConfig(entropy=0.0)
PAPER, PAPER_ROWS = "the paper's head", "the paper's head, rows"
IDENTITY, HEAD = "the paper's head, rows, from the identity", "the head: the same, normalised"
ADDITIVE, LINEAR = "the head, additive attention", "linear"
SYSTEMS: Mapping[str, RouterSystem] = {
    PAPER: RouterSystem(PAPER_HEAD),
    f"{PAPER}, no entropy bonus": RouterSystem(PAPER_HEAD, NO_BONUS),
    PAPER_ROWS: RouterSystem(ROWS),
    f"{PAPER_ROWS}, no entropy bonus": RouterSystem(ROWS, NO_BONUS),
    IDENTITY: RouterSystem(ROWS.replace(init="identity")),
    HEAD: RouterSystem(),
    f"{HEAD}, no entropy bonus": RouterSystem(training=NO_BONUS),
    ADDITIVE: RouterSystem(HeadConfig(design="additive")),
    LINEAR: RouterSystem(HeadConfig(design="linear")),
}
STUDY = RelayStudy(routers="heads")
SCALE = Scale("solved", RANDOM, ORACLE, LINEAR)
WORLD = World(
    STUDY,
    lambda study, seed: run_routers(study, SYSTEMS, seed),
    scale=SCALE,
    claims=(
        SCALE.claim("rows in place of words", PAPER, PAPER_ROWS),
        SCALE.claim("no entropy bonus, rows", PAPER_ROWS, f"{PAPER_ROWS}, no entropy bonus"),
        SCALE.claim("start at the identity", PAPER_ROWS, IDENTITY),
        SCALE.claim("layer normalisation", IDENTITY, HEAD),
        SCALE.claim("no softmax over agents", HEAD, ADDITIVE),
        SCALE.claim("no values and no cosine", ADDITIVE, LINEAR),
    ),
)
