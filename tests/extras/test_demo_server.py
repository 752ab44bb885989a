"""The server of docs/first-hour.md, for readers without a model."""

import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest

from selfwire.extras.demo_server import DemoHandler
from selfwire.models.providers import make_chat_model

QUESTION = "Which desk, billing, tech or sales? I was charged twice in May."


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), DemoHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


async def test_it_knows_the_words_of_two_desks_and_leaves_the_rest_to_the_offline_model(address: str) -> None:
    model = make_chat_model("openai:my-model", base_url=address, api_key="any")
    assert (await model.ainvoke(QUESTION)).content == "Answer: billing"
    other = await model.ainvoke("Which desk, billing, tech or sales? We want fifty more seats.")
    assert other.content
    assert "billing" not in str(other.content)
    chunks = [chunk async for chunk in model.astream(QUESTION)]
    assert "".join(str(chunk.content) for chunk in chunks) == "Answer: billing"
    assert sum(chunk.usage_metadata["total_tokens"] for chunk in chunks if chunk.usage_metadata) > 0
