"""The layer under chat models: texts are found and replaced in what is sent, in one context alone."""

import asyncio
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field, SecretStr

from selfwire.models.providers import get_identity
from selfwire.models.text_layer import LayerText, TextLayer, count_blocks, read_text
from tests.wire.server import WireServer


class Echo(BaseChatModel):
    """Answers with what it was sent."""

    seen: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        self.seen.append(messages)
        said = " | ".join(str(message.content) for message in messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said))])

    def bind_tools(self, tools: Any, **given: Any) -> Any:
        return self.bind(tools=tools, **given)


class Streaming(Echo):
    """Streams the same."""

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> Iterator[ChatGenerationChunk]:
        for message in messages:
            yield ChatGenerationChunk(message=AIMessageChunk(content=str(message.content)))


def make(name: str, pieces: tuple[str, ...], *holes: str) -> LayerText:
    found = LayerText.of(name, pieces, holes)
    assert found is not None
    return found


PLAN = make("plan", ("You plan the work for ", ". Be brief."), "person")
ANSWER = make("answer", ("Answer the question.\n\nNotes: ", "\n\n", ""), "notes", "question")
TEXTS = (PLAN, ANSWER)
CHANGED = {"plan": "Write a plan that helps {person} today."}


def test_holes_without_a_word_between_them_are_one() -> None:
    assert (ANSWER.pieces, ANSWER.holes, ANSWER.after) == (
        ("Answer the question.\n\nNotes: ",), (), "{notes}\n\n{question}",
    )  # fmt: skip
    assert PLAN.shown == "You plan the work for {person}. Be brief."
    assert LayerText.of("bare", ("", " / ", ""), ("a", "b")) is None
    both = make("both", ("", "\nis the topic; write about ", "!"), "topic", "part")
    assert (both.before, both.pieces, both.after) == ("{topic}", ("\nis the topic; write about ",), "{part}!")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Plan it.", "must have '{person}'"),
        ("Plan for {person}, {person}.", "too often"),
        ("{person}", "says nothing"),
    ],
)
def test_a_changed_text_must_keep_its_holes(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TextLayer(TEXTS, {"plan": text})


def test_a_hole_at_an_edge_stays_there() -> None:
    with pytest.raises(ValueError, match="must end with"):
        TextLayer(TEXTS, {"answer": "Notes: {notes}\n\n{question} Answer!"})
    with pytest.raises(ValueError, match="too often"):
        TextLayer(TEXTS, {"answer": "{notes}\n\n{question} Well: {notes}\n\n{question}"})


async def test_every_way_of_asking_sends_the_changed_text() -> None:
    given = "You plan the work for Ann. Be brief."
    wanted = "Write a plan that helps Ann today."
    model, streaming = Echo(), Streaming()

    @tool
    def look(place: str) -> str:
        """Look at a place."""
        return place

    class Reply(BaseModel):
        text: str

    with TextLayer(TEXTS, CHANGED).active():
        assert model.invoke(given).content == wanted
        assert (await model.ainvoke([SystemMessage(given)])).content == wanted
        assert [reply.content for reply in model.batch([given, "other"])] == [wanted, "other"]
        assert "".join(str(chunk.content) for chunk in streaming.stream(given)) == wanted
        assert "".join([str(chunk.content) async for chunk in streaming.astream(given)]) == wanted
        assert model.bind_tools([look]).invoke(given).content == wanted
        assert (ChatPromptTemplate([("system", given)]) | model).invoke({}).content == wanted
        assert RunnableLambda[str, str](lambda text: str(model.invoke(text).content)).invoke(given) == wanted
        assert (await asyncio.to_thread(model.invoke, given)).content == wanted
        blocks = [HumanMessage([{"type": "text", "text": given}, {"type": "image_url", "image_url": {"url": "x"}}])]
        assert model.invoke(blocks).content == str([{"type": "text", "text": wanted}, blocks[0].content[1]])
        model.with_structured_output(Reply, include_raw=True).invoke(given)
        assert model.seen[-1][0].content == wanted
    assert model.invoke(given).content == given
    assert blocks[0].content[0] == {"type": "text", "text": given}  # the program's own message is not touched


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_text_with_the_old_one_in_it_is_put_in_once(wire_server: WireServer, *, streaming: bool) -> None:
    model = ChatOpenAI(model="mine", base_url=wire_server.url, api_key=SecretStr("k"), streaming=streaming)
    given = "You plan the work for Ann. Be brief."
    with TextLayer(TEXTS, {"plan": "You plan the work for {person}. Be brief. Be kind."}).active():
        await model.ainvoke([SystemMessage(given), HumanMessage([{"type": "text", "text": given}])])
    sent = [message["content"] for message in wire_server.asked[-1].body["messages"]]
    assert sent == [f"{given} Be kind.", [{"type": "text", "text": f"{given} Be kind."}]]


class Gateway(Echo):
    """Asks another model, with a text of its own before what it was sent."""

    inner: Echo = Field(default_factory=Echo)

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        said = " ".join(str(message.content) for message in messages)
        reply = self.inner.invoke([SystemMessage(f"Answer the question.\n\nNotes: {said}\n\nNow.")])
        return ChatResult(generations=[ChatGeneration(message=AIMessage(str(reply.content)))])


async def test_a_model_that_asks_another_one_hands_on_the_new_text_and_has_its_own_replaced() -> None:
    given = "You plan the work for Ann. Be brief."
    changed = {
        "plan": "You plan the work for {person}. Be brief. Be kind.",
        "answer": "Hurry to answer.\n\nNotes: {notes}\n\n{question}",
    }
    with TextLayer(TEXTS, changed).active():
        for _ in range(2):
            assert Gateway().invoke(given).content == f"Hurry to answer.\n\nNotes: {given} Be kind.\n\nNow."
        assert (await Gateway().ainvoke(given)).content == f"Hurry to answer.\n\nNotes: {given} Be kind.\n\nNow."


class Copier(Echo):
    """Asks another model, with its messages written anew."""

    inner: Echo = Field(default_factory=Echo)

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        reply = self.inner.invoke([SystemMessage("".join([*message.text])) for message in messages])
        return ChatResult(generations=[ChatGeneration(message=AIMessage(str(reply.content)))])


def test_a_model_that_writes_its_messages_anew_for_another_one_sends_the_new_text_once() -> None:
    given = "You plan the work for Ann. Be brief."
    with TextLayer(TEXTS, {"plan": "You plan the work for {person}. Be brief. Be kind."}).active():
        assert Copier().invoke(given).content == f"{given} Be kind."


def test_descriptions_listed_in_another_order_than_their_tools_are_named_all_change() -> None:
    old = {"search": "Search the web for pages about it.", "fetch": "Fetch the page at an address."}
    texts = [make(name, (words,)).replace(tool=name) for name, words in old.items()]
    layer = TextLayer(texts, {"search": "Look it up.", "fetch": "Open a page."})
    listed = "You can use search and fetch.\n- fetch: {fetch}\n- search: {search}"
    [sent] = layer.rewrite([SystemMessage(listed.format(**old))])
    assert sent.content == listed.format(search="Look it up.", fetch="Open a page.")


async def test_two_variants_at_once_do_not_mix() -> None:
    model = Echo()

    async def ask(number: int) -> str:
        layer = TextLayer(TEXTS, {"plan": f"Variant {number} of a plan for {{person}}."} if number else {})
        with layer.active():
            await asyncio.sleep(random.Random(number).random() / 100)
            return str((await model.ainvoke("You plan the work for Bob. Be brief.")).content)

    said = await asyncio.gather(*map(ask, range(8)))
    assert said[0] == "You plan the work for Bob. Be brief."
    assert said[1:] == [f"Variant {number} of a plan for Bob." for number in range(1, 8)]


async def test_pools_of_threads_send_the_changed_text_and_other_contexts_do_not() -> None:
    model, given = Echo(), "You plan the work for Bob. Be brief."
    with ThreadPoolExecutor(1) as pool:  # one thread for both
        with TextLayer(TEXTS, CHANGED).active():
            submitted = pool.submit(model.invoke, given)
            awaited = await asyncio.get_running_loop().run_in_executor(None, model.invoke, given)
            mapped = list(pool.map(model.invoke, [given]))
        outside = pool.submit(model.invoke, given)
        said = [str(message.content) for message in (submitted.result(), awaited, *mapped, outside.result())]
    assert said == [*["Write a plan that helps Bob today."] * 3, given]


def test_what_fills_a_hole_stays_as_it_is() -> None:
    layer = TextLayer(TEXTS, {"answer": "Read the notes first.\n\nNotes: {notes}\n\n{question}", **CHANGED})
    filled = "a\n\nb {x} \\1\n\nWhich?"
    [message] = layer.rewrite([HumanMessage(f"Answer the question.\n\nNotes: {filled}")])
    assert message.content == f"Read the notes first.\n\nNotes: {filled}"
    [odd] = layer.rewrite([HumanMessage("You plan the work for \\g<0>{person}. Be brief.")])
    assert odd.content == "Write a plan that helps \\g<0>{person} today."
    other = [HumanMessage("Nothing of these.")]
    assert layer.rewrite(other)[0] is other[0]


def test_texts_are_found_as_they_are_sent_and_the_longest_wins() -> None:
    short, long = (
        LayerText.of("short", ("You are careful.",), ()),
        LayerText.of("long", ("You are careful. Count.",), ()),
    )
    assert short is not None
    assert long is not None
    layer = TextLayer([short, long], {"long": "Count twice."})
    assert [m.content for m in layer.rewrite([HumanMessage("You are careful. Count. You are careful.")])] == [
        "Count twice. You are careful."
    ]
    assert layer.find([HumanMessage("Count twice."), HumanMessage("You are careful.")]) == ("long", "short")
    assert TextLayer([short, long]).find([HumanMessage("You are careful. Count.")]) == ("long",)


def test_a_block_of_a_jinja_template_is_a_hole_that_may_be_empty_or_sent_again() -> None:
    pieces = ("List the parts. ", "Part: ", ", ", "Use two words each. ", "No more.")
    holes = ("for part in parts", "part", "endfor", "if x")
    [loop] = filter(None, [LayerText.of("list", (*pieces, "End."), (*holes, "endif"))])
    assert loop.pieces == ("List the parts. ", "Use two words each. ", "End.")
    assert (
        loop.shown
        == "List the parts. {for part in parts}Part: {part}, {endfor}Use two words each. {if x}No more.{endif}End."
    )
    layer = TextLayer([loop], {"list": loop.shown.replace("List", "Write")})
    for filled in ("", "Part: a, ", "Part: a, Part: b, "):
        [message] = layer.rewrite([HumanMessage(f"List the parts. {filled}Use two words each. End.")])
        assert message.content == f"Write the parts. {filled}Use two words each. End."
    [alone] = filter(None, [LayerText.of("list", ("List it ", " here ", " now."), ("endif", "if a"))])
    assert alone.pieces == ("List it ", " here ", " now.")


def test_a_section_of_mustache_is_a_hole_and_a_hash_alone_is_none() -> None:
    assert count_blocks(["#people", "name", "/people", "^people", "/people", "# a comment #", "x"]) == [
        *(0, 1, 1, 0, 1, 0, 0, 0)
    ]


def test_white_space_beside_a_tag_is_the_templates_own() -> None:
    [text] = filter(
        None, [LayerText.of("plan", ("", "\nPlan it at ", " for all.\n", ""), ('include "a"', "site", "endif"))]
    )
    assert (text.pieces, text.before, text.after) == (("Plan it at ", " for all."), '{include "a"}\n', "\n{endif}")
    layer = TextLayer([text], {"plan": '{include "a"}\n\nPlan all at {site} for all.\n{endif}'})
    assert layer.rewrite([HumanMessage("Be kind.Plan it at sea for all.")])[0].content == (
        "Be kind.Plan all at sea for all."
    )


FIND = LayerText.of("find", ("Find a place.",), ()).replace(tool="find")  # type: ignore[union-attr]
BETTER = "Find a place by its name."


def find(place: str) -> str:
    """Find a place.

    Args:
        place: Its name.
    """
    return place


def offer(description: str) -> list[Any]:
    """The tool as OpenAI's, Anthropic's, Google's and Amazon's clients bind it."""
    told = {"name": "find", "description": description}
    text = {"properties": {"description": {"type": "string", "description": "Find a place"}}}
    return [
        {"type": "function", "function": {**told, "parameters": text}},
        {**told, "input_schema": text},
        {"function_declarations": [{**told, "parameters": text}]},
        {"toolSpec": {**told, "inputSchema": {"json": text}}},
    ]


def test_a_description_is_replaced_in_every_form_and_nowhere_else() -> None:
    layer, given = TextLayer([*TEXTS, FIND], {"find": BETTER}), offer("Find a place.")
    assert layer.rewrite_tools(given) == offer(BETTER)
    assert given == offer("Find a place.")
    assert layer.rewrite_tools(offer("Find a place.\n\n    Args:\n        place: x")) == offer(
        f"{BETTER}\n\n    Args:\n        place: x"
    )
    other = offer("Find a place. Or two.")
    assert layer.rewrite_tools(other) is other
    assert layer.rewrite([HumanMessage("Find a place.")])[0].content == "Find a place."
    assert layer.find([HumanMessage("Find a place.")], offer(BETTER)) == ("find",)
    assert layer.find([HumanMessage("Find a place.")]) == layer.find([], other) == ()


def test_a_description_is_replaced_in_a_prompt_that_lists_tools() -> None:
    layer = TextLayer([FIND], {"find": BETTER})
    for listed in ("- find: {}\n- other: Find a place.", "find(place: str) -> str - {}", "Name: find\nUse: {}"):
        [message] = layer.rewrite([HumanMessage(listed.format("Find a place."))])
        assert message.content == listed.format(BETTER)


def test_a_description_of_several_lines_keeps_its_indentation() -> None:
    [long] = filter(None, [LayerText.of("find", ("Find a place.\n\nIt has a name.",), ())])
    layer = TextLayer([long.replace(tool="find")], {"find": "Find it.\n\nBy its name."})
    [tool, *_] = layer.rewrite_tools(offer("Find a place.\n\n    It has a name.\n\n    Args:\n        place: x"))
    assert tool["function"]["description"] == "Find it.\n\n    By its name.\n\n    Args:\n        place: x"


@pytest.mark.parametrize("new", ["It finds.\n\nArgs:\n  place: x", "Returns: it", "Find.\n  Notes:\n  a"])
def test_a_description_has_no_section_of_its_own(new: str) -> None:
    with pytest.raises(ValueError, match="begins a section"):
        TextLayer([FIND], {"find": new})


async def test_every_way_of_asking_offers_the_changed_description(wire_server: WireServer) -> None:
    model = ChatOpenAI(model="mine", base_url=wire_server.url, api_key=SecretStr("k"))
    parsed = tool(parse_docstring=True)(find)
    ways: list[Any] = [model.bind_tools([shape]) for shape in (find, tool(find), parsed)]
    with TextLayer([FIND], {"find": BETTER}).active():
        for bound in ways:
            bound.invoke("a")
            await bound.ainvoke("a")
            list(bound.stream("a"))
            [_ async for _ in bound.astream("a")]
            bound.batch(["a"])
        await asyncio.to_thread(ways[0].invoke, "a")
    ways[0].invoke("a")
    *inside, after = [asked.body["tools"][0]["function"]["description"] for asked in wire_server.asked]
    rest = "\n\n    Args:\n        place: Its name."
    assert inside == [BETTER] * 5 + [BETTER + rest] * 5 + [BETTER] * 6
    assert after == "Find a place."


def test_a_marked_text_is_put_in_where_it_is_read_and_only_found_in_messages() -> None:
    rule = LayerText(name="rule", pieces=("Be brief.",), is_marked=True)
    layer = TextLayer([PLAN, rule], {"rule": "Be brief. Be kind."})
    with layer.active():
        assert read_text("\n Be brief.\n") == "\n Be brief. Be kind.\n"
        assert read_text("Be long.") == "Be long."
    assert read_text("Be brief.") == "Be brief."
    assert list(layer.read) == ["rule"]
    sent = [HumanMessage("Be brief. Be kind.")]
    assert layer.rewrite(sent)[0] is sent[0]
    assert layer.find(sent) == ("rule",)


def test_what_the_program_puts_in_is_listed_beside_each_text() -> None:
    layer = TextLayer([ANSWER, make("find", ("Find a place.",))])
    asked = HumanMessage("Answer the question.\n\nNotes: [Tarn] A town.\n\nWhere?")
    assert layer.list_given([asked]) == {"answer": ["[Tarn] A town.\n\nWhere?"]}  # as the hole between is short
    said = [SystemMessage("Find a place."), HumanMessage("In Tarn?"), AIMessage("No."), HumanMessage("Why?")]
    assert layer.list_given(said) == {"find": ["In Tarn?", "Why?"]}
    assert layer.list_given([HumanMessage("In Tarn?")]) == {}
    long = TextLayer([make("long", ("From these passages:\n", "\nanswer the question: ", ""), "passages", "question")])
    asked = HumanMessage("Sir. From these passages:\n[Tarn] A town.\nanswer the question: Where?")
    assert long.list_given([asked]) == {"long": ["Sir. ", "[Tarn] A town.", "Where?"]}


def test_texts_that_are_exchanged_both_change_in_any_order_and_only_once() -> None:
    changed = {"sail": "Speak like a lawyer.", "law": "Speak like a sailor."}
    texts = [make("sail", ("Speak like a sailor.",)), make("law", ("Speak like a lawyer.",))]
    given = ["Speak like a sailor.", "Speak like a lawyer."]
    for order in (given, given[::-1]):
        layer = TextLayer(texts, changed)
        sent = [layer.rewrite([SystemMessage(text)])[0] for text in order]
        assert [message.content for message in sent] == order[::-1]
        assert layer.rewrite(sent) == sent  # a model that converts what it sends a second time
        [both] = layer.rewrite([SystemMessage(" ".join(order))])
        assert both.content == " ".join(order[::-1])


def test_descriptions_that_are_exchanged_both_change_in_any_order_and_only_once() -> None:
    book, film = ({"name": f"find_{what}", "description": f"Finds a {what}."} for what in ("book", "film"))
    texts = [LayerText(name=t["name"], pieces=(t["description"],), tool=t["name"]) for t in (book, film)]
    changed = {"find_book": film["description"], "find_film": book["description"]}
    exchanged = [{**tool, "description": changed[tool["name"]]} for tool in (book, film)]
    for order in (1, -1):
        layer = TextLayer(texts, changed)
        sent = layer.rewrite_tools([book, film][::order])
        assert sent == exchanged[::order]
        assert layer.rewrite_tools(sent) is sent
        assert layer.find([], sent) == ("find_book", "find_film")[::order]
        listed = [f"{tool['name']}: {tool['description']}" for tool in [book, film][::order]]
        [message] = layer.rewrite([SystemMessage("\n".join(listed))])
        assert message.content == "\n".join(f"{tool['name']}: {tool['description']}" for tool in exchanged[::order])


def test_what_a_changed_prompt_says_of_a_tool_stays_as_it_was_written() -> None:
    layer = TextLayer([PLAN, FIND], {"plan": "Plan for {person}. find: Find a place.", "find": BETTER})
    [message] = layer.rewrite([SystemMessage("You plan the work for Ann. Be brief.\nfind: Find a place.")])
    assert message.content == f"Plan for Ann. find: Find a place.\nfind: {BETTER}"


def test_tools_that_are_described_alike_change_one_by_one() -> None:
    alike = [{"name": name, "description": "Finds things."} for name in ("find_book", "find_film", "find_song")]
    texts = [LayerText(name=n, pieces=("Finds things.",), tool=n) for n in ("find_book", "find_film")]
    for name in ("find_book", "find_film"):
        layer = TextLayer(texts, {name: "Finds it by its name."})
        sent = layer.rewrite_tools(alike[:2])
        assert [tool["name"] for tool in sent if tool["description"] == "Finds it by its name."] == [name]
        assert layer.find([], [tool for tool in sent if tool["name"] == name]) == (name,)
        listed = "\n".join(f"{tool['name']}: {tool['description']}" for tool in alike[:2])
        [message] = layer.rewrite([SystemMessage(listed)])
        assert message.content == listed.replace(f"{name}: Finds things.", f"{name}: Finds it by its name.")
    shared = texts[0].replace(users=("tool find_book", "tool find_song"))  # one text of the source for both
    layer = TextLayer([texts[1], shared], {"find_book": "Finds it."})
    assert [tool["description"] for tool in layer.rewrite_tools(alike)] == ["Finds it.", "Finds things.", "Finds it."]


def test_models_are_chosen_in_threads_that_make_one_per_call() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    layer = TextLayer(TEXTS, models={"plan": "openai:cheap"})
    asked = [HumanMessage("You plan the work for Ada. Be brief.")]

    def choose(_: int) -> str:
        chosen = layer.choose_model(ChatOpenAI(model="dear", api_key=SecretStr("k")), asked)
        assert layer.choose_model(chosen, asked) is chosen
        return get_identity(chosen).model

    try:
        with ThreadPoolExecutor(6) as pool:
            assert {*pool.map(choose, range(1500))} == {"cheap"}
    finally:
        sys.setswitchinterval(interval)
