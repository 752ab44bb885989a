"""Packs what a page shows into compact JSON: every text once and cut at a limit, trails compressed."""

import base64
import gzip
import json
from collections.abc import Iterable
from math import ceil
from typing import Any, NamedTuple

from selfwire.core.values import mask_controls, replace_surrogates
from selfwire.extras.pages.data import AgentCard, EditGroup, Place, RunReport, TeamVersion
from selfwire.extras.pages.evaluation import format_notes
from selfwire.extras.pages.layout import TeamLayout
from selfwire.extras.pages.panels import pack_panels, pack_picture
from selfwire.extras.pages.pictures import draw_run
from selfwire.extras.pages.stored import StoredStep, StoredTrajectory

BODY = 4000
"""Most characters of one text; longer ones are cut with a note."""
CHUNK = 40
"""Trajectories that are compressed together."""
PICTURES = 300_000
"""Most characters of all panels of versions together, as they stand in the page."""
TRAILS = 1_200_000
"""Most characters of all trails together, as they stand in the page."""


def cut_text(text: str) -> str:
    """The text with visible controls and whole characters, cut at a limit with a note on what is missing."""
    whole = mask_controls(replace_surrogates(text[: BODY + 1]))
    if len(text) <= BODY:
        return whole
    return f"{whole[:BODY]}\n… cut here: {len(text) - BODY:,} more characters are in the run's journal"


def cut_line(text: str, limit: int = 100) -> str:
    """A short text that stands in one line."""
    whole = mask_controls(replace_surrogates(" ".join(text[: 4 * limit].split())))
    return whole if len(whole) <= limit else f"{whole[: limit - 1]}…"


class Texts:
    """A table of texts, each of which stands in it once."""

    def __init__(self) -> None:
        self.table: list[str] = []
        self._places: dict[str, int] = {}

    def add(self, text: str) -> int:
        """The text's place in the table."""
        if (place := self._places.get(text)) is None:
            place = self._places[text] = len(self.table)
            self.table.append(cut_text(text))
        return place


def pack_team(report: RunReport, layout: TeamLayout) -> dict[str, Any]:
    """Versions, agents, edits and places of nodes."""
    texts = Texts()
    versions = [_pack_version(version, texts) for version in report.versions]
    largest = report.largest_gain
    return {
        "run": report.run,
        "nodes": {name: [round(x, 1), round(y, 1)] for name, (x, y) in layout.nodes.items()},
        "routes": [[r.source, r.target, [[round(x, 1), round(y, 1)] for x, y in r.points]] for r in layout.routes],
        "size": [layout.width, layout.height],
        "versions": versions,
        "largest": largest.number if largest else None,
        "texts": texts.table,
    }


def _pack_version(version: TeamVersion, texts: Texts) -> dict[str, Any]:
    gain = version.difference
    return {
        "number": version.number,
        "label": cut_line(version.label),
        "ref": version.ref,
        "accepted": version.accepted,
        "outcome": version.outcome,
        "why": texts.add(version.why),
        "gain": gain and [gain.value, gain.low, gain.high, gain.n],
        "score": version.score,
        "tag": cut_line(version.tag, 14),
        "nodes": version.nodes,
        "names": {node: cut_line(name) for node, name in version.names.items()},
        "captions": {node: cut_line(text, 28) for node, text in version.captions.items()},
        "links": [[link.source, link.target, round(link.traffic, 3)] for link in version.links],
        "entry": version.entry,
        "sink": version.sink,
        "agents": {agent.id: _pack_agent(agent, texts) for agent in version.agents},
        "edits": [_pack_edit(edit, texts) for edit in version.edits],
    }


def _pack_agent(agent: AgentCard, texts: Texts) -> dict[str, Any]:
    return {
        "role": texts.add(agent.role),
        "kind": agent.kind,
        "prompt": texts.add(agent.prompt),
        "tools": agent.tools,
        "memory": [texts.add(note) for note in agent.memory],
        "learned": {name: texts.add(text) for name, text in agent.learned.items()},
        "cost": [agent.runs, round(agent.calls, 2), round(agent.tokens)],
    }


def _pack_edit(edit: EditGroup, texts: Texts) -> dict[str, Any]:
    return {
        "operation": edit.operation,
        "by": edit.by,
        "why": texts.add(edit.why),
        "lines": [[line.sign, texts.add(line.text)] for line in edit.lines],
        "refused": texts.add(edit.refused) if edit.refused else None,
    }


def pack_panels_of_versions(report: RunReport) -> str:
    """Panels of the method for each version and for all together, compressed; "" where there are none.

    Where there is no room for all, the first versions have null in place of their panels; "" where none has room.
    """
    if not report.panels and not any(version.panels for version in report.versions):
        return ""
    left_out = 0
    while len(packed := _compress(_list_panels(report, left_out))) > PICTURES and left_out < len(report.versions):
        left_out += ceil((len(report.versions) - left_out) / 2)
    return packed if len(packed) <= PICTURES else ""


def _list_panels(report: RunReport, left_out: int) -> dict[str, Any]:
    texts = Texts()
    kept = [pack_panels(version.panels, texts.add) for version in report.versions[left_out:]]
    whole = pack_panels(report.panels, texts.add)
    return {"panels": whole, "frames": [*[None] * left_out, *kept], "texts": texts.table}


class PackedRuns(NamedTuple):
    """Outcomes by place, and trails in chunks.

    Attributes:
        chunks: compressed trails in base64, by name.
        left_out: trajectories whose trails had no room.
    """

    places: list[dict[str, Any]]
    chunks: dict[str, str]
    left_out: int


def pack_runs(report: RunReport) -> PackedRuns:
    """All outcomes, and as many trails as there is room for: of tests first, then of late iterations."""
    tasks = Texts()
    places = [_pack_place(measured, tasks) for measured in report.places]
    chunks: dict[str, str] = {}
    left_out, room = 0, TRAILS
    for number, place in _by_interest(report.places):
        for start in range(0, len(place.trails), CHUNK):
            some = place.trails[start : start + CHUNK]
            packed = _compress(pack_trails(some, place.method, drawn=place.split != "asked")) if room > 0 else ""
            if packed and len(packed) <= room:
                chunks[f"{number}-{start // CHUNK}"] = packed
                room -= len(packed)
            else:
                left_out += len(some)
                room = 0  # else all that is left would be compressed in vain
    places.append({"tasks": tasks.table})
    return PackedRuns(places, chunks, left_out)


def _by_interest(places: Iterable[Place]) -> list[tuple[int, Place]]:
    order = {"test": 0, "gate": 1, "train": 1}
    numbered = list(enumerate(places))

    def rank(entry: tuple[int, Place]) -> tuple[int, bool, int]:
        return order.get(entry[1].split, 2), entry[1].side == "before", -entry[1].iteration

    return sorted(numbered, key=rank)


def _pack_place(place: Place, tasks: Texts) -> dict[str, Any]:
    rows = [[tasks.add(o.task), o.sample, o.state, o.score, o.calls, o.tokens] for o in place.outcomes]
    return {**place.model_dump(exclude={"outcomes", "trails", "method"}), "rows": rows}


def pack_trails(trails: Iterable[StoredTrajectory], method: str = "", *, drawn: bool = True) -> dict[str, Any]:
    """Trajectories with their texts in one table; `drawn` is off where the page draws their rounds elsewhere."""
    texts = Texts()
    return {"trails": [_pack_trail(trail, texts, method, drawn) for trail in trails], "texts": texts.table}


def _pack_trail(done: StoredTrajectory, texts: Texts, method: str, drawn: bool) -> dict[str, Any]:
    feedback = done.feedback
    return {
        "question": texts.add(done.question.input),
        "answer": None if done.answer is None else texts.add(done.answer),
        "error": None if done.error is None else texts.add(done.error),
        "feedback": feedback and texts.add(feedback.text),
        "overhead": [done.overhead.calls, done.overhead.tokens],
        "notes": [texts.add(text) for text in format_notes(method, done.notes)],
        "picture": pack_picture(draw_run(method, done.notes), texts.add) if drawn else None,
        "steps": [_pack_step(step, texts) for step in done.steps],
    }


def _pack_step(step: StoredStep, texts: Texts) -> dict[str, Any]:
    packed: dict[str, Any] = {
        "node": step.node,
        "agent": step.agent,
        "visit": step.visit,
        "in": [[message.source, texts.add(message.text)] for message in step.inbox],
        "out": texts.add(step.output),
        "cost": [step.usage.calls, step.usage.tokens],
    }
    if step.error is not None:
        packed["error"] = texts.add(step.error)
    if step.tools:
        packed["tools"] = [
            [use.name, texts.add(_to_line(use.arguments)), texts.add(use.result), use.error] for use in step.tools
        ]
    if step.routing:
        packed["routing"] = [list(step.routing.chosen), step.routing.why, _round_scores(step.routing.scores)]
    if sent := [[m.target, texts.add(m.text)] for m in step.sent]:
        packed["sent"] = sent
    if step.skills:
        packed["skills"] = list(step.skills)
    return packed


def _round_scores(scores: Any) -> dict[str, float]:
    known = scores if isinstance(scores, dict) else {}
    return {name: round(value, 3) for name, value in known.items() if isinstance(value, int | float)}


def _to_line(arguments: Any) -> str:
    return json.dumps(arguments, ensure_ascii=False)


def _compress(value: Any) -> str:
    return base64.b64encode(gzip.compress(to_json(value).encode(), 6, mtime=0)).decode()


def to_json(value: Any) -> str:
    """Compact JSON in ASCII."""
    return json.dumps(value, separators=(",", ":"))
