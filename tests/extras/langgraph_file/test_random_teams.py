"""Random teams with hostile texts and names, as files that run in this process beside the teams themselves."""

import ast
import json
import random
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import Edge, Node, Topology
from selfwire.extras.langgraph_file.write import write_langgraph
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.sync import run_sync
from selfwire.runs.inputs import SystemParts
from selfwire.tools.calculator import CalculatorTool
from tests.core.generators import make_tool
from tests.extras.langgraph_file.files import digest, load

TEAMS = 30
IDS = (
    "build answer END class 1a a-b a_b print State model question graph work read calculator ask messages Any A a tool "
    "outputs hand_over HAND_OVER instructions sort plan fill excerpt str main_ operator"
).split()
TEXTS = (
    'You are "it".', "You're {it} and $it.", '"""\n    import os\n"""', "\\", 'ends with "', '"""', "\x00\x1b[2J",
    "\u202eright to left\u2066", "tab\there \n  and blanks  \n", "caf\u00e9 \U0001f600\n\n" + "long words " * 40,
    "a" * 300, "", "\r\n# noqa\n", "%s %(x)s {0} {{}}", "\\N{BULLET} \\x41 \\\n", " ", "\ufeff", "${question}", "\n\n",
    "Say so. \\u0041", "''' \\\"\"\" \\",
)  # fmt: skip


class Recorder(ChatOpenAI):
    """Answers with a digest of what it is sent, which it keeps."""

    heard: list[str] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        sent = [[one.type, one.text, [call["args"] for call in getattr(one, "tool_calls", ())]] for one in messages]
        form: Any = kwargs.get("response_format")
        name = form.__name__ if isinstance(form, type) else form["json_schema"]["name"] if form else ""
        if name != "TaskProfile":  # which a frozen bandit does not ask for
            self.heard.append(json.dumps([sent, name]))
        said = AIMessage(f"Said {digest(sent)}.")
        if name:
            made = {"instruction": f"Do {digest(sent)}."}
            parsed = {"parsed": form(**made)} if isinstance(form, type) else {}
            said = AIMessage(json.dumps(made), additional_kwargs=parsed)
        elif kwargs.get("tools") and messages[-1].type != "tool":
            function = kwargs["tools"][0]["function"]["name"]
            given = {"expression": "2 + 3"} if function == "calculator" else {"n": 4}
            said = AIMessage("", tool_calls=[{"name": function, "args": given, "id": "1"}])
        return ChatResult(generations=[ChatGeneration(message=said)])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        return self._generate(messages, **kwargs)


def make_recorder() -> Recorder:
    return Recorder(model="local", api_key="none", temperature=1.0)


def random_team(rng: random.Random) -> Team:
    """A team of HiVA without cycles and with two arms at most, or a fixed team of any shape."""
    method = rng.choice(["hiva", "random"])
    nodes = rng.sample(IDS, rng.randint(1, 7))
    agents = rng.sample(IDS, rng.randint(1, len(nodes)))
    tools = [make_tool(name) for name in ("add-up", "print", "a") if rng.random() < 0.3]
    held = ["calculator", *(tool.name for tool in tools)]
    pairs = [(a, b) for a in nodes for b in nodes if a != b and (method != "hiva" or nodes.index(a) < nodes.index(b))]
    edges = {(nodes[0], nodes[-1])} if len(nodes) > 1 else set()
    for source, target in rng.sample(pairs, min(len(pairs), rng.randint(0, 2 * len(nodes)))):
        if method != "hiva" or sum(s == source and t != nodes[-1] for s, t in edges) < 2:
            edges.add((source, target))
    return Team(
        method=method,
        agents=tuple(
            Agent(
                id=agent,
                role=rng.choice(TEXTS),
                prompt=rng.choice(TEXTS) + rng.choice(TEXTS),
                tools=tuple(rng.sample(held, rng.choice([0, 0, 1, 2]) if len(held) > 1 else 0)),
                memory=tuple(rng.sample(TEXTS, rng.choice([0, 0, 2]))),
                temperature=rng.choice([None, 0.5]),
            )
            for agent in agents
        ),
        topology=Topology(
            nodes=tuple(Node(id=node, agent=rng.choice(agents)) for node in nodes),
            edges=tuple(Edge(source=a, target=b) for a, b in edges),
            entry=nodes[0],
            sink=nodes[-1],
        ),
        tools=tuple(tools),
    )


@pytest.mark.parametrize("part", range(4))
def test_random_teams_run_as_their_files(part: int, tmp_path: Path) -> None:
    for seed in range(part, TEAMS, 4):
        team = random_team(random.Random(seed))
        source = write_langgraph(team, "mine@r.0")
        assert write_langgraph(team, "mine@r.0") == source
        assert_only_texts(team, source)
        model, question = make_recorder(), f"Question {seed}: {random.Random(seed).choice(TEXTS)}?".strip()
        parts = SystemParts(MeteredModel(model), {"calculator": CalculatorTool()}, HashingEmbedder(), None)
        method, ctx = parts.open(team.method, {})
        wanted = run_sync(method.answer(team, Question(id="q", input=question), ctx)).answer
        sent, model.heard = sorted(model.heard), []
        file = tmp_path / f"mine_{seed}.py"
        file.write_text(source, encoding="utf-8")
        other = make_recorder()
        assert load(file).build(other).invoke({"question": question})["answer"] == wanted, seed
        assert sorted(other.heard) == sent, seed


def assert_only_texts(team: Team, source: str) -> None:
    """Prompts are values of constants, letter by letter, and nothing of them is code."""
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    assert {team.agent_at(node.id).prompt for node in team.topology.nodes if node.id in (team.topology.entry,)} <= {
        *texts
    }
    imported = {alias.name for node in ast.parse(source).body if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= {"ast", "json", "math", "operator", "os", "re", "sys"}
    assert "selfwire" not in source.replace("selfwire export", "")
