"""Teams to start from: the paper's two domains, one for plain questions, and those of users."""

import re
from collections.abc import Mapping, Sequence

from selfwire.core.agent import COMPUTING_TOOLS, Agent
from selfwire.core.chat import Prompts
from selfwire.core.team import Team
from selfwire.core.topology import Node, Topology
from selfwire.core.values import Id
from selfwire.evolvers.dytopo.domain import MANAGER, MEMORY, Domain, DytopoMemory

DOMAINS: Mapping[str, Domain] = {
    "code": Domain(name="code", answerers=("Developer",), checkers=("Tester",), form="code"),
    "math": Domain(name="math", answerers=("Solver",), checkers=("Verifier",)),
    "general": Domain(name="general", answerers=("Writer",)),
}

_ROLES: Mapping[str, Mapping[Id, str]] = {
    "code": {
        "Developer": "writes the program",
        "Researcher": "names algorithms, costs and traps",
        "Tester": "gives test cases and checks programs",
        "Designer": "lays down interfaces",
    },
    "math": {
        "ProblemParser": "states the problem exactly and plans the solution",
        "Solver": "derives the solution and gives the answer",
        "Verifier": "checks solutions line by line",
    },
    "general": {
        "Analyst": "takes the task apart",
        "Researcher": "finds facts",
        "Reasoner": "draws conclusions from facts",
        "Writer": "gives the final answer",
    },
}


WITH_TOOLS = "look things up with your tools and in the text of the task, and read closely what you find"
COMPUTING = (
    "look things up in the text of the task and read it closely; you hold no search, so where it says nothing, "
    "say so or mark what you know as unverified"
)
WITHOUT_TOOLS = (
    "look things up in the text of the task and read it closely; you hold no tools, so where it says nothing, "
    "say so or mark what you know as unverified"
)
"""What the prompts say of sources, by what the team holds; tools that compute look nothing up."""


_ASKS_FOR = {
    "code": re.compile(
        r"```|\bdef \w+\(|\b(?:write|implement|program|fix|debug|refactor)\b[^.?\n]{0,60}"
        r"\b(?:function|program|script|class|method|code|unit tests?)\b",
        re.IGNORECASE,
    ),
    "math": re.compile(
        r"\\(?:frac|sqrt|sum|int)\b|\b(?:prove that|solve for|solve the equations?|evaluate the integral|derivative of|"
        r"remainder when|how many (?:integers|ways|solutions)|find all (?:real|integer|positive))\b",
        re.IGNORECASE,
    ),
}
"""Wording of tasks that ask for a program, or for a derivation."""


def propose_domain(question: str) -> str:
    """The domain that a question's wording asks for; "" where it asks for none."""
    return next((name for name, wording in _ASKS_FOR.items() if wording.search(question)), "")


def make_initial_team(prompts: Prompts, domain: str = "general", *, tools: Sequence[Id] = ()) -> Team:
    """A domain's team.

    Raises:
        ValueError: there is no such domain.
    """
    if domain not in DOMAINS:
        raise ValueError(f"unknown domain {domain!r}; domains are {', '.join(DOMAINS)}, or bring a team of your own")
    sources = WITH_TOOLS if set(tools) - COMPUTING_TOOLS else COMPUTING if tools else WITHOUT_TOOLS
    texts = {name: prompts.text(f"{domain}_{name.lower()}", sources=sources).strip() for name in _ROLES[domain]}
    roles = [Agent(id=name, role=role, prompt=texts[name], tools=tuple(tools)) for name, role in _ROLES[domain].items()]
    return make_team(roles, DOMAINS[domain], manager=prompts.text("role_manager").strip())


def make_team(agents: Sequence[Agent], domain: Domain, *, manager: str) -> Team:
    """A team of given workers: who answers, who checks.

    The team's topology has the workers as nodes and no edges, as edges are induced round by round. The manager is
    an agent without a node.

    Raises:
        ValueError: an id occurs twice or is the manager's, or the domain names an unknown agent.
    """
    if any(agent.id == MANAGER for agent in agents):
        raise ValueError(f"a worker cannot be called {MANAGER!r}; choose another id")
    domain.check_workers([agent.id for agent in agents])
    leader = Agent(id=MANAGER, role="leads the team", prompt=manager, kind="manager")
    answerer = domain.answerers[0]
    return Team(
        method=MEMORY,
        agents=(*agents, leader),
        topology=Topology(
            nodes=tuple(Node(id=agent.id, agent=agent.id) for agent in agents), entry=answerer, sink=answerer
        ),
        memory={MEMORY: DytopoMemory(domain=domain).model_dump(mode="json")},
    )
