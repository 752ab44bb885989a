"""The programs of this folder, and their inventories in lines that a test compares exactly.

`python -m tests.extras.adopt.corpus` prints how many lines each needs so that nothing of it is opaque.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from selfwire.extras.adopt.inventory import ProgramText
from selfwire.extras.adopt.page import Inventory

HERE = Path(__file__).parent
GRAPHS = {
    "ancestry": "tree:tree",
    "applicants": "cv:app",
    "archive": "letters:archive",
    "bakery": "bakery:graph",
    "bakery_orders": "bakery_bot.app:make_graph",
    "bank": "bank:app",
    "bank_swarm": "swarm.graph:graph",
    "bees": "hive:hive",
    "bicycles": "app:bikes",
    "billing_desk": "billdesk:graph",
    "bound_tools": "kit:graph",
    "brewery": "brew:brew",
    "call_centre": "centre:centre",
    "callable_nodes": "story:get_graph",
    "campaign": "gamemaster:game",
    "cartography": "build:graph",
    "church_clock": "builder:clock",
    "class_prompts": "tutor:graph",
    "clause_review": "review:graph",
    "clinic_desk": "clinic.flow:desk",
    "clinic_intake": "clinic:app",
    "command_routing": "desk:graph",
    "complaints": "triage:graph",
    "concierge": "concierge:concierge",
    "conditional_build": "app:graph",
    "context_prompts": "graph:graph",
    "contract": "contract.graph:graph",
    "cooking_contest": "judges.app:graph",
    "court_brief": "brief.graph:graph",
    "crossing": "crossing:graph",
    "customs": "agent:clerk",
    "day_book": "diary:diary",
    "day_trip": "trip:app",
    "debate": "debate:debate",
    "decorated_nodes": "app:graph",
    "deep_agent": "deep:agent",
    "deep_research": "odr:deep_researcher",
    "dentist": "clinic:clinic",
    "dict_prompts": "panel:graph",
    "digest": "digest:graph",
    "email_assistant": "assistant.graph:email_assistant",
    "embassy": "desk:desk",
    "exam": "exam:exam",
    "example_selector": "classify:graph",
    "expression_chains": "chain:graph",
    "ferry_bot": "support_notebook:app",
    "few_shot": "sql_agent:graph",
    "foreign_tools": "server:make_graph",
    "freight": "gateway:graph",
    "front_matter": "hike:graph",
    "functional": "essay:workflow",
    "gallery": "concat:museum",
    "garden": "garden:graph",
    "gotos": "gotos:graph",
    "greenhouse": "tomato:greenhouse",
    "handbook": "kb.graph:graph",
    "handoff_factory": "team.py:graph",
    "handoffs": "network:graph",
    "harbour": "harbour:harbour",
    "hardware_shop": "shop:graph",
    "hotel": "hotel:hotel",
    "hub_rag": "rag:graph",
    "human_in_the_loop": "approval:graph",
    "import_effects": "effects:graph",
    "incident": "bot:incident_bot",
    "inn_guide": "bot.graph:app",
    "ironmonger": "shop:shop",
    "json_prompts": "bot:make_graph",
    "json_tools": "tools:graph",
    "labels": "labels:graph",
    "laboratory": "lab.team:head",
    "landlord": "landlord:graph",
    "languages": "desk.flow:graph",
    "law_desk": "lexdesk:intake_graph",
    "lease_briefs": "briefs.app:app",
    "lesson": "vers.graph:graph",
    "letters": "letters:letters",
    "library_desk": "rag:graph",
    "loan_desk": "loan:graph",
    "local_paper": "news.main:paper",
    "manuals": "translator:graph",
    "many_file_kinds": "pkg.graph:graph",
    "map_reduce": "jokes:app",
    "matched_commands": "flow:graph",
    "maths_lesson": "tutor.lesson:lesson_graph",
    "middleware": "assistant:assistant",
    "mixed_clients": "mixed:graph",
    "module_getattr": "bot.graph:graph",
    "museum_guide": "quiet2:graph",
    "mystery": "game:game",
    "named_tasks": "essay:essay",
    "nested_builder": "recipes:app",
    "nested_settings": "app.graph:graph",
    "nested_teams": "company.main:app",
    "newsroom": "newsroom:make_graph",
    "no_packages": "src/agent/graph.py:graph",
    "no_texts": "quiet:graph",
    "novel": "novel:graph",
    "observatory": "obs.night:app",
    "on_call": "incident:create_graph",
    "opaque": "opaque:graph",
    "optional_imports": "cond:graph",
    "order_queries": "bot.agent:sql_agent",
    "outline_writer": "storm:graph",
    "parcels": "app.main:app",
    "partial_templates": "templ:graph",
    "partials": "pipeline:graph",
    "patch_review": "review_bot:graph",
    "payment_reviews": "codereview:graph",
    "persona_loop": "panel:graph",
    "pharmacy": "pharmacy:graph",
    "phone_orders": "bakery.flow:bakery",
    "plan_and_execute": "plan_execute:app",
    "planets": "planets:graph",
    "play_critics": "panel:panel",
    "podcast": "podcast:episode",
    "pottery": "studio:pottery",
    "press": "office.graph:graph",
    "prompt_builder": "app:graph",
    "prompt_files": "app.graph:app",
    "prompt_folders": "load:graph",
    "prompt_holders": "school:graph",
    "prompts_module": "agent.graph:build_graph",
    "pub_quiz": "quiz:graph",
    "pull_requests": "review:graph",
    "pydantic_state": "triage:graph",
    "quarry": "pit:quarry",
    "rag_grading": "rag:graph",
    "rail_guide": "pieces:graph",
    "rail_planner": "rails:graph",
    "railway_desk": "agent:agent",
    "raw_client": "client:make_graph",
    "react_agent": "src/react_agent/graph.py:graph",
    "recipes": "recipes:create_graph",
    "record_shop": "music:shop",
    "reflection": "reflect:graph",
    "reflexion": "reflex:graph",
    "remote_texts": "remote:make_graph",
    "reviewers": "review:reviewer",
    "roof_bees": "beekeeper:keeper",
    "school_office": "office:graph",
    "signals": "review:graph",
    "statutes": "legal.graph:graph",
    "storyteller": "prompted:graph",
    "structured_output": "extract:app",
    "studio": "studio.app:graph",
    "subclassed_agents": "team.graph:graph",
    "subclassed_builder": "flow:museum",
    "subgraph_factory": "many:graph",
    "subgraph_in_node": "main:graph",
    "subgraphs": "report:graph",
    "super_init": "crew:graph",
    "supervisor": "supervised:app",
    "swarm": "swarm:app",
    "symptom_desk": "intake:graph",
    "tax": "taxhelp:app",
    "ticket_desk": "agent:make_graph",
    "tidal_council": "council:council",
    "timetable": "timetable:timetable",
    "tool_classes": "support:support",
    "tool_registry": "bot.main:agent",
    "toolbox": "main:agent",
    "translation": "lingua.graph:graph",
    "travel_agent": "travel:agent",
    "unpacked_literals": "teams:graph",
    "vet_flow": "vet:graph",
    "village_fair": "batch:fair",
    "voice": "voice:graph",
    "weather_agent": "agent:agent",
    "weather_report": "react:graph",
    "week_planner": "src/planner/graph.py:graph",
    "wine_cellar": "wine:cellar",
}
"""Names of graphs by the folder of their program, which is the working directory when they are read."""


def find_folder(program: str) -> Path:
    return HERE / "programs" / program


def read_expected(program: str) -> list[str]:
    """The lines of a program's inventory, as a person has checked them."""
    return (HERE / "expected" / f"{program}.txt").read_text(encoding="utf-8").splitlines()


def list_lines(inventory: Inventory) -> Iterator[str]:
    """List all that an inventory says, a line for each thing; texts are whole."""
    for node in inventory.nodes:
        yield f"node {join(node.graph, node.name)}: {node.kind} {node.target} {node.file}:{node.line}-{node.end_line}"
    for edge in inventory.edges:
        ends = " | ".join([*edge.ends, *([] if edge.complete else ["?"])])
        how = f"{edge.kind} {edge.shown_by} {edge.router}".strip()
        yield f"edge {join(edge.graph, edge.source)} -> {ends}: {how} {edge.file}:{edge.line}"
    for pause in inventory.interrupts:
        yield f"interrupt {join(pause.graph, pause.node)}: {pause.kind} {pause.file}:{pause.line}"
    for inner in inventory.subgraphs:
        yield f"subgraph {inner.name}: {inner.kind} {join(inner.graph, inner.node)} {inner.file}:{inner.line}"
    for agent in inventory.agents:
        parts = f"model={','.join(agent.models)} tools={','.join(agent.tools)}"
        yield f"agent {agent.name}: {agent.maker} {parts} {agent.file}:{agent.line}"
    for tool in inventory.tools:
        yield f"tool {tool.name}: {tool.kind} {tool.file}:{tool.line} {json.dumps(tool.description)}"
    for model in inventory.models:
        yield f"model {model.maker}: {','.join(model.names) or '?'} {model.file}:{model.line}"
    for value in inventory.values:
        allowed = f" of {', '.join(value.choices)}" if value.choices else ""
        evolved = "" if value.spelled is None else " evolved"
        yield f"setting {value.owner}.{value.name}: {value.default}{allowed} {value.file}:{value.line}{evolved}"
    for text in inventory.texts:
        yield from list_text_lines(text)
    yield from (f"opaque {thing.file}:{thing.line} {thing.reason}; {thing.way_out}" for thing in inventory.opaque)


def list_text_lines(text: ProgramText) -> Iterator[str]:
    place = f"{text.file}:{text.line}:{text.column}-{text.end_line}:{text.end_column}"
    what = " ".join(filter(None, (text.role, text.kind, text.name)))
    yield f"text {what}: {place} {json.dumps(text.pieces, ensure_ascii=False)}"
    yield f"    used by {', '.join(text.used_by) or 'nothing'}"
    if text.holes:
        yield f"    holes {json.dumps(text.holes, ensure_ascii=False)}"
    if text.signal or text.keeps:
        yield f"    signal {text.signal!r} keeps {list(text.keeps)}"
    if text.is_past:
        yield "    sent past LangChain"


def join(graph: str, name: str) -> str:
    return f"{graph}/{name}" if graph else name


MOST = 5
"""Lines that may be added to a program."""


def count_added() -> dict[str, int]:
    """Count the opaque things of each program, for each of which its inventory names a line or a form that opens it."""
    return {program: sum(line.startswith("opaque ") for line in read_expected(program)) for program in GRAPHS}


def format_added() -> str:
    """Write how many programs need no line, and how many need a few at most, as a row of a table."""
    added = [*count_added().values()]
    shares = [sum(count <= most for count in added) for most in (0, MOST)]
    return "| " + " | ".join(f"{share} of {len(added)} ({share / len(added):.0%})" for share in shares) + " |"


if __name__ == "__main__":
    needy = [f"{count} {program}" for program, count in count_added().items() if count]
    print(*needy, format_added(), sep="\n")  # noqa: T201
