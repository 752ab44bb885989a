"""The offline model behind the local server says the same through the real client as it does directly."""

import pytest

from selfwire.core.chat import ChatMessage, ReplySchema, ToolSpec
from selfwire.core.scope import Scope
from selfwire.evolvers.hiva.schemas import AgentGradient, TopologyDecision
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model
from tests.wire.server import WireServer, served

ASKED = [ChatMessage.system("You look facts up in documents and read them."), ChatMessage.user("Where was Ada born?")]


@pytest.fixture
def pair(wire_server: WireServer) -> tuple[MeteredModel, MeteredModel]:
    offline = make_chat_model("offline", temperature=1.0)
    wire_server.answer = served(offline)
    client = make_chat_model("openai:offline", base_url=wire_server.url, temperature=1.0)
    return MeteredModel(offline), MeteredModel(client)


class Opinion(ReplySchema, title="SelfCriticism"):
    """A schema of another package that declares a known kind."""

    criticism: str


@pytest.mark.parametrize("schema", [AgentGradient, TopologyDecision, Opinion])
async def test_structured_asks(pair: tuple[MeteredModel, MeteredModel], schema: type[ReplySchema]) -> None:
    direct, wired = [await model.generate_structured(schema, ASKED, scope=Scope(seed=3)) for model in pair]
    assert wired[0] == direct[0]
    assert wired[1].calls == direct[1].calls == 1


async def test_replies_with_tools(pair: tuple[MeteredModel, MeteredModel]) -> None:
    takes = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    search = ToolSpec(name="search", description="Search the documents.", parameters=takes)
    direct, wired = [await model.generate(ASKED, scope=Scope(seed=3), tools=[search]) for model in pair]
    assert wired.content == direct.content
    assert [(c.name, c.arguments) for c in wired.tool_calls] == [(c.name, c.arguments) for c in direct.tool_calls]
    assert wired.usage.input_tokens == direct.usage.input_tokens
