"""The prompts of a team in LangSmith's prompt hub: one prompt per agent, called NAME-AGENT.

One prompt each, as a prompt of the hub is what one request holds: it is opened in the playground, compared from commit
to commit and pulled by its name alone. It is a chat prompt with one system message. Braces of the text are doubled
there; a hole, which only texts of a graph of the user's own have, is a variable.
"""

import re
from collections.abc import Mapping
from string import Formatter
from typing import Any, Final, NamedTuple

from langchain_core._api import suppress_langchain_beta_warning
from langchain_core.load.load import default_init_validator, load
from langchain_core.messages import BaseMessage
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate, SystemMessagePromptTemplate
from langchain_core.prompts.structured import StructuredPrompt
from langsmith import Client
from langsmith.utils import LangSmithNotFoundError

from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.core.values import Id
from selfwire.evals.langsmith import describe_unreadable
from selfwire.models.text_layer import LayerText

FORMAT: Final = "f-string"
"""The form of templates in the hub; another one is refused."""
READ: Final = (
    "ChatPromptTemplate",
    "StructuredPrompt",
    "SystemMessagePromptTemplate",
    "HumanMessagePromptTemplate",
    "AIMessagePromptTemplate",
    "MessagesPlaceholder",
    "SystemMessage",
    "PromptTemplate",
)
"""Classes that are made of what the hub sends, which may name any of LangChain's; most of them only to be refused.

They have no modules here, as those of LangChain for JavaScript, which LangSmith's pages save, are others.
"""


SINGLE = re.compile(r"\{[^{}]*\}")
"""One hole of several without a word between them, which `LayerText` takes for one."""


class HubPrompt(NamedTuple):
    """A prompt of an agent, under its name in the hub.

    Attributes:
        text: as the agent has it.
        variables: what fills a hole in the text, by the name of its variable in the hub.
        layer: the text of a graph of the user's own that this prompt stands for.
    """

    name: str
    agent: Id
    text: str
    variables: Mapping[str, str]
    layer: LayerText | None = None

    def to_template(self) -> ChatPromptTemplate:
        """Write the prompt as the hub has it."""
        names = {hole: f"{{{name}}}" for name, hole in self.variables.items()}
        pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        parts = re.split(f"({pattern})", self.text) if pattern else [self.text]
        text = "".join(names.get(part) or part.replace("{", "{{").replace("}", "}}") for part in parts)
        return ChatPromptTemplate([SystemMessagePromptTemplate.from_template(text, template_format=FORMAT)])

    def read_template(self, found: object) -> str:
        """Read the text from a prompt of the hub.

        Raises:
            ConfigError: it is no chat prompt with one system message, or its holes are not those of the text.
        """
        try:
            text = self._fill_holes(_read_template(found))
            return self.layer.show(self.layer.parse(text)) if self.layer else text.strip()
        except ValueError as error:
            raise ConfigError(f"prompt {self.name!r} of LangSmith does not fit {self.agent!r}: {error}") from None

    def is_text_of(self, found: object) -> bool:
        """Whether a prompt of the hub has this text."""
        try:
            return self.read_template(found) == self.text.strip()
        except ConfigError:
            return False

    def _fill_holes(self, template: str) -> str:
        parts = []
        for static, hole, form, conversion in Formatter().parse(template):
            parts.append(static)
            if hole is not None:
                if hole not in self.variables or form or conversion:
                    known = f"its holes are {', '.join(self.variables)}" if self.variables else "it has no holes"
                    raise ValueError(f"{{{hole}}} is no hole of it, {known}; write {{{{...}}}} for braces in the text")
                parts.append(self.variables[hole])
        return "".join(parts)


def _read_template(found: object) -> str:
    messages = found.messages if isinstance(found, ChatPromptTemplate) else [found]
    if isinstance(found, StructuredPrompt) or len(messages) != 1:
        raise ValueError("it must be one system message, without others and without a schema of the reply")
    [message] = messages
    if isinstance(message, BaseMessage) and message.type == "system" and isinstance(message.content, str):
        return message.content.replace("{", "{{").replace("}", "}}")
    prompt = message.prompt if isinstance(message, SystemMessagePromptTemplate) else message
    if not isinstance(prompt, PromptTemplate):
        raise ValueError("it must be one system message of text")
    if prompt.template_format != FORMAT:
        raise ValueError(f"its template is {prompt.template_format}; save it as {FORMAT}")
    return prompt.template


def list_prompts(name: str, team: Team, texts: Mapping[str, LayerText]) -> list[HubPrompt]:
    """List the prompts of a team as the hub calls them.

    Args:
        texts: of a graph of the user's own, by agent; only these are prompts of such a team.

    Raises:
        ConfigError: two agents would have one name in the hub, which knows small letters only.
    """
    agents = [agent for agent in team.agents if not texts or (agent.id in texts and not texts[agent.id].setting)]
    found = dict[str, HubPrompt]()
    for agent in agents:
        called, layer = f"{name}-{agent.id}".lower(), texts.get(agent.id)
        if called in found:
            raise ConfigError(f"agents {found[called].agent!r} and {agent.id!r} would both be {called!r} in LangSmith")
        found[called] = HubPrompt(called, agent.id, agent.prompt, _name_holes(layer), layer)
    return list(found.values())


def _name_holes(layer: LayerText | None) -> dict[str, str]:
    """Name the holes of a text so that a template may have these names."""
    marks = (layer.before, *layer.holes, layer.after) if layer else ()
    holes = [hole for mark in marks for hole in SINGLE.findall(mark) or [mark] if hole]
    found = dict[str, str]()
    for hole in dict.fromkeys(holes):
        word = re.sub(r"\W+", "_", hole, flags=re.ASCII).strip("_").lstrip("0123456789_") or "hole"
        found[next(w for n in range(1, 10_000) if (w := word if n == 1 else f"{word}_{n}") not in found)] = hole
    return found


def push_prompts(client: Client, prompts: list[HubPrompt], description: str, change: str) -> dict[str, str]:
    """Push prompts; one whose text the hub has already gets no commit.

    Args:
        description: of the team.
        change: the description of each commit.

    Returns:
        The address of the commit by the prompt's name; "" where nothing had changed.

    Raises:
        LangSmithError: the hub refused, or was not reached.
    """
    found = dict[str, str]()
    for prompt in prompts:
        found[prompt.name] = ""
        if not prompt.is_text_of(_pull(client, prompt.name)):
            found[prompt.name] = client.push_prompt(
                prompt.name,
                object=prompt.to_template(),
                description=f"Prompt of agent {prompt.agent} of {description}",
                commit_description=change[:1000],
            )
    return found


def pull_prompts(client: Client, prompts: list[HubPrompt]) -> dict[Id, str]:
    """Pull the texts of prompts that are others there, by agent; nothing of them is run.

    Raises:
        ConfigError: the hub lacks one, or a text does not fit.
        LangSmithError: the hub refused, or was not reached.
    """
    found = dict[Id, str]()
    for prompt in prompts:
        there = _pull(client, prompt.name)
        if there is None:
            raise ConfigError(f"LangSmith at {client.api_url} has no prompt {prompt.name!r}; `selfwire push` makes it")
        if (text := prompt.read_template(there)) != prompt.text.strip():
            found[prompt.agent] = text
    return found


def _refuse_others(path: tuple[str, ...], given: dict[str, Any]) -> None:
    """Refuse to make a class of LangChain that is not among `READ`, or a template that runs code."""
    if path[-1] not in READ:
        raise ValueError(f"{path} is not allowed in a prompt")
    default_init_validator(path, given)


def _pull(client: Client, name: str) -> object:
    """The prompt of a name, without a model; None if there is none."""
    try:
        with suppress_langchain_beta_warning():
            manifest = client.pull_prompt_commit(name, skip_cache=True).manifest
            return load(manifest, allowed_objects="core", init_validator=_refuse_others)
    except LangSmithNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, NotImplementedError, RecursionError) as error:
        raise ConfigError(
            f"prompt {name!r} of LangSmith at {client.api_url} cannot be read: {describe_unreadable(error)}; save it "
            "anew there, or check LANGSMITH_ENDPOINT"
        ) from None
