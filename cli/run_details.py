"""Details of a run: its plan, the method's notes, and the topology that ran."""

from selfwire.cli import output
from selfwire.core import drawing
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import to_plain_json
from selfwire.graphs.method_registry import describe_method


def show_notes(method: str, done: Trajectory) -> None:
    """Print the notes as the method formats them, such as its rounds, and the topology that ran last, if any."""
    out, notes = output.make_console(), to_plain_json(done.notes)
    for block in describe_method(method).format_notes(notes):
        out.print(f"\n{block}")
    if "topology" in notes:
        ran = Topology.model_validate(notes["topology"])
        out.print(f"\ntopology that ran last\n{drawing.to_text(ran)}\n\n{drawing.to_mermaid(ran)}\n")


def show_plan(done: Trajectory) -> None:
    """Print the notes on how a team was planned; nothing for methods that do not plan."""
    notes = to_plain_json(done.notes)
    if "topology" not in notes or "profile" not in notes:
        return
    profile = notes["profile"]
    lines = [
        f"profile: {profile['type']}, {profile['difficulty']}: {profile['summary'] or 'not characterised'}",
        "insights shown:" if notes.get("insights") else "insights shown: none",
        *(f"  {one['id']} (utility {one['utility']:.2f}) {one['text']}" for one in notes.get("insights", [])),
        "plan:" if not notes.get("default") else "plan: the default chain",
        *(f"  {line}" for line in drawing.to_text(Topology.model_validate(notes["topology"])).splitlines()),
        *(f"repaired: {one}" for one in notes.get("repairs", [])),
    ]
    output.make_console().print("\n".join(["", *lines]))
