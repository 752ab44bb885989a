"""How a team was planned for a question: profile, insights shown, topology, repairs."""

from selfwire.cli import output
from selfwire.core import drawing
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import to_plain_json


def show_plan(done: Trajectory) -> None:
    """Print what a trajectory notes of its planning; nothing for methods that do not plan."""
    noted = to_plain_json(done.notes)
    if "topology" not in noted or "profile" not in noted:
        return
    profile = noted["profile"]
    lines = [
        f"profile: {profile['type']}, {profile['difficulty']}: {profile['summary'] or 'not characterised'}",
        "insights shown:" if noted.get("insights") else "insights shown: none",
        *(f"  {one['id']} (utility {one['utility']:.2f}) {one['text']}" for one in noted.get("insights", [])),
        "plan:" if not noted.get("default") else "plan: the default chain",
        *(f"  {line}" for line in drawing.to_text(Topology.model_validate(noted["topology"])).splitlines()),
        *(f"repaired: {one}" for one in noted.get("repairs", [])),
    ]
    output.make_console().print("\n".join(["", *lines]))
