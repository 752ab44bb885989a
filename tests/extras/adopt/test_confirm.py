"""Confirming runs: programs are imported in a process that can send nothing, and what they would send is told."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from selfwire.cli.app import build
from selfwire.core.errors import ConfigError
from selfwire.extras.adopt import confirm as confirming
from selfwire.extras.adopt.canned import PLAIN, CannedReplies
from selfwire.extras.adopt.confirm import Confirmation, confine, confirm_program, tell_unreached
from selfwire.extras.adopt.inventory import ProgramText
from selfwire.extras.adopt.reader import read_program
from selfwire.extras.adopt.sent_texts import RequestTexts, list_unknown
from tests.extras.adopt.confirmed import confirm_graph, run_fork
from tests.extras.adopt.corpus import GRAPHS, find_folder
from tests.wire.server import WireServer

APP = """
import os
import urllib.request
from typing import Literal, TypedDict

import openai
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

URL = "{url}"
llm = ChatOpenAI(model="mine", base_url=URL, api_key=os.environ["SHOP_API_KEY"], max_retries=0)
open("imported.log", "w").write("beside the program")


class Desk(TypedDict):
    question: str
    answer: str


def sort(state: Desk):
    reply = llm.invoke([("system", f"You sort with {{os.environ['SHOP_API_KEY']}}: answer 'bill' or 'tech'."),
                        ("user", state["question"])])
    return {{"answer": reply.text}}


def route(state: Desk) -> Literal["bill", "tech"]:
    return "bill" if state["answer"] == "bill" else "tech"


def bill(state: Desk):
    if os.environ.get("SHOP_CLOSED"):
        return {{"answer": llm.invoke("Say that the shop is closed.").text}}
    return {{"answer": llm.invoke("Explain the bill in " + "simple words.").text}}


def tech(state: Desk):
    for forbid in (
        lambda: urllib.request.urlopen(URL),
        lambda: open("{outside}/outside.log", "w"),
        lambda: os.system("touch {outside}/started.log"),
    ):
        try:
            forbid()
        except OSError:
            pass
    client = openai.OpenAI(base_url=URL, api_key="k", max_retries=0)
    client.chat.completions.create(model="mine", messages=[{{"role": "user", "content": "Mend the machine at once."}}])
    return {{}}


builder = StateGraph(Desk)
for node in (sort, bill, tech):
    builder.add_node(node)
builder.add_edge(START, "sort")
builder.add_conditional_edges("sort", route)
builder.add_edge("bill", END)
builder.add_edge("tech", END)
graph = builder.compile()
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes `app.py` into the working directory, an empty folder."""
    folder = tmp_path / "program"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def write(text: str) -> None:
        Path("app.py").write_text(text, encoding="utf-8")

    return write


def confirm(name: str = "app:graph", **options: Any) -> Confirmation:
    return confirm_program(read_program(name), run_child=run_fork, **options)


@pytest.mark.slow  # imports LangChain in a process of its own
def test_a_program_is_run_where_it_can_send_write_and_start_nothing(
    write: Callable[[str], None], wire_server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(APP.format(url=wire_server.url, outside=tmp_path))
    monkeypatch.setenv("SHOP_API_KEY", "a real key")
    monkeypatch.setenv("SHOP_CLOSED", "")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = CliRunner().invoke(build(), ["adopt", "app:graph", "--confirm", "--json"])
    assert done.exit_code == 0, done.output
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert wire_server.asked == []
    assert "app" not in sys.modules
    found = Confirmation.model_validate(json.loads(done.stdout)["confirmation"])
    assert "a real key" not in done.stdout
    texts = {text.text: (", ".join(sent.node for sent in text.sent), text.unreached) for text in found.texts}
    closed = "the node bill ran without it; a state or setting that its code asks for would bring it"
    raw = "only a client that is not LangChain's sends it, and none of those was let send"
    assert texts == {
        "You sort with {os.environ['SHOP_API_KEY']}: answer 'bill' or 'tech'.": ("sort", ""),
        "Say that the shop is closed.": ("", closed),
        "Explain the bill in simple words.": ("bill", ""),
        "Mend the machine at once.": ("", raw),
    }
    port = wire_server.url.split(":")[2].split("/")[0]
    assert [place.partition(":")[0] for place, _ in found.refused] == ["app.py"] * len(found.refused)
    refused = " ".join(what for _, what in found.refused)
    for what in (f"connects to 127.0.0.1:{port}", f"writes {tmp_path}/outside.log", "starts another program"):
        assert what in refused


SEEN = {
    "bakery": (14, 17),
    "contract": (6, 6),
    "digest": (11, 11),
    "human_in_the_loop": (2, 2),
    "map_reduce": (5, 5),
    "prompt_folders": (7, 7),
    "raw_client": (0, 3),
}
"""Texts that are seen in requests, and all, of programs of the corpus."""


@pytest.mark.parametrize("program", SEEN)
def test_texts_of_the_corpus_are_seen_in_requests(program: str) -> None:
    found = confirm_graph(program)
    assert isinstance(found, Confirmation), found
    assert (sum(bool(text.sent) for text in found.texts), len(found.texts)) == SEEN[program]
    assert all(bool(text.sent) != bool(text.unreached) for text in found.texts)


def test_tools_are_run_if_that_is_asked_for() -> None:
    found = confirm_graph("weather_agent", calls_tools=True)
    assert isinstance(found, Confirmation)
    texts = {text.text: text for text in found.texts}
    assert texts["It is sunny in {city}."].sent
    canned = confirm_graph("weather_agent")
    assert isinstance(canned, Confirmation)
    [text] = [text for text in canned.texts if text.text == "It is sunny in {city}."]
    assert text.unreached == "the tool get_weather was not run; --call-tools runs tools"


def test_a_tool_that_ran_without_a_text_of_its_own_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(find_folder("weather_agent"))
    inventory = read_program(GRAPHS["weather_agent"])
    [text] = [text for text in inventory.texts if text.pieces[0] == "It is sunny in "]
    why = tell_unreached(text, inventory, ["agent"], ["get_weather"], calls_tools=True)
    assert why == "the tool get_weather ran without it; arguments or a state that its code asks for would bring it"


GRAPH = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

def chat(state):
    return {"messages": [ChatOpenAI(model="m").invoke([("system", "You chat."), *state["messages"]])]}

graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").compile()
"""


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (
            "import no_such_package\n",
            "app.py:1: ModuleNotFoundError: No module named 'no_such_package'; install no_such_package beside selfwire",
        ),
        (
            "\nimport urllib.request\nurllib.request.urlopen('http://127.0.0.1:9')\n",
            "app.py:3: NotAllowedError: a confirming run does not allow this: the program connects to 127.0.0.1:9; "
            "move it into a function that the graph calls when it is asked",
        ),
        ("import os\nos.environ['SHOP']\n", "app.py:2: KeyError: 'SHOP'; set SHOP in the environment"),
        ("raise SystemExit('no')\n", "app.py:1: SystemExit: no; mend it, or name another graph of the program"),
        ("1 / 0\n", "app.py:1: ZeroDivisionError: division by zero; mend it, or name another graph of the program"),
        ("import os\nos._exit(7)\n", "the process ended (1792)"),
    ],
)
def test_what_cannot_be_imported_is_a_sentence_with_the_line(
    write: Callable[[str], None], before: str, why: str
) -> None:
    write(before + GRAPH)
    with pytest.raises(ConfigError) as caught:
        confirm()
    assert str(caught.value).startswith(f"graph 'app:graph' cannot be imported: {why}")


@pytest.mark.parametrize("kind", ["asynccontextmanager", "contextmanager"])
def test_a_context_that_makes_a_graph_is_entered(write: Callable[[str], None], kind: str) -> None:
    maker = f"{'async ' * kind.startswith('a')}def made(config):\n    yield graph\n"
    write(f"{GRAPH}import contextlib\n\n@contextlib.{kind}\n{maker}")
    found = confirm("app:made")
    assert (found.texts[0].text, [sent.node for sent in found.texts[0].sent]) == ("You chat.", ["chat"])


def test_what_the_source_does_not_show_is_told(write: Callable[[str], None]) -> None:
    hidden = GRAPH.replace('"You chat."', 'bytes.fromhex("5265706c7920696e20746865206f6c64207374796c652e").decode()')
    write(hidden)
    assert confirm().unknown == (("chat", "Reply in the old style."),)


def test_the_question_and_the_input_may_be_given(write: Callable[[str], None]) -> None:
    write(GRAPH.replace('"You chat."', "f\"Mood: {state['messages'][0].additional_kwargs['mood']}.\""))
    assert confirm().texts[0].unreached
    given = {"messages": [{"role": "user", "content": "{question}", "additional_kwargs": {"mood": "glad"}}]}
    found = confirm(template=given, question="How are you?")
    assert [sent.node for sent in found.texts[0].sent] == ["chat"]


def test_large_files_are_linked_and_large_folders_are_run_where_they_are(
    write: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(GRAPH.replace('"You chat."', 'open("large.txt").read()') + "open('made.txt', 'w')\n")
    Path("large.txt").write_text("You chat about everything under the sun.")
    monkeypatch.setattr(confirming, "LARGE", 30)
    assert [sent.node for sent in confirm().texts[0].sent] == ["chat"]
    monkeypatch.setattr(confirming, "MOST_FILES", 1)
    with pytest.raises(ConfigError, match=r"app.py:\d+: NotAllowedError: .* the program writes made.txt; move it"):
        confirm()
    assert sorted(path.name for path in Path().iterdir()) == ["app.py", "large.txt"]


OUTSIDE = """
import os, shutil
from contextlib import suppress
WITHIN = os.open({outside!r}, os.O_RDONLY)
shutil.rmtree({outside!r} + "/folder", ignore_errors=True)
for change in (
    lambda: os.remove("file", dir_fd=WITHIN),
    lambda: os.rename("file", "other", src_dir_fd=WITHIN, dst_dir_fd=WITHIN),
    lambda: os.rename("app.py", "moved", dst_dir_fd=WITHIN),
    lambda: os.mkdir("made", dir_fd=WITHIN),
    lambda: os.symlink("file", "linked", dir_fd=WITHIN),
    lambda: os.chmod(WITHIN, 0o700),
    lambda: os.utime("file", (0, 0), dir_fd=WITHIN),
):
    with suppress(PermissionError):
        change()
os.mkdir("own")
open("own/file", "w").close()
shutil.rmtree("own")
assert not os.path.exists("own")
"""


HIDDEN = """
import os
show = os.readlink


def hide(path, **more):
    if str(path).startswith("/proc/"):
        raise OSError("there is no /proc")
    return show(path, **more)


os.readlink = hide
"""


@pytest.mark.parametrize("head", ["", HIDDEN], ids=["shown", "hidden"])
def test_a_program_changes_nothing_outside_by_an_open_folder(
    write: Callable[[str], None], tmp_path: Path, head: str
) -> None:
    outside = tmp_path / "outside"
    (outside / "folder" / "below").mkdir(parents=True)
    for name in ("file", "folder/a", "folder/below/b"):
        (outside / name).touch()
    outside.chmod(0o755)

    def look() -> dict[Path, tuple[int, int]]:
        return {path: (path.lstat().st_mode, path.lstat().st_mtime_ns) for path in (outside, *outside.rglob("*"))}

    before = look()
    write(head + OUTSIDE.format(outside=str(outside)) + GRAPH)
    found = confirm()
    assert look() == before
    assert len(found.refused) >= 8


def test_a_socket_in_the_file_system_is_listed_and_those_of_a_pair_are_let(write: Callable[[str], None]) -> None:
    tried = "import socket\n[part.close() for part in socket.socketpair()]\ntry:\n    socket.socket(socket.AF_UNIX)\n"
    write(f"{tried}except OSError:\n    pass\n{GRAPH}")
    assert [*confirm().refused] == [("app.py:4", "opens a socket in the file system")]


UNSEEN = (
    "os.close(os.open('made', os.O_WRONLY | os.O_CREAT, dir_fd=os.open(OUTSIDE, os.O_RDONLY)))",
    "os.mkfifo(OUTSIDE + '/made')",
    "os.mknod(OUTSIDE + '/made', 0o100600)",
    "sqlite3.connect(':memory:').execute('attach ? as a', (OUTSIDE + '/made',)).execute('create table a.t (x)')",
    "ctypes.CDLL(None).open((OUTSIDE + '/made').encode(), os.O_WRONLY | os.O_CREAT, 0o600)",
    "ctypes.CDLL(None).system(('touch ' + OUTSIDE + '/made').encode())",
    "signal.pidfd_send_signal(os.pidfd_open(PARENT), 0); print('sent')",
    "resource.prlimit(PARENT, resource.RLIMIT_CORE, (0, 0)); print('set')",
)
"""Calls of which Python tells an audit hook nothing, or nothing with which it could refuse them."""


@pytest.mark.parametrize("call", UNSEEN)
def test_the_kernel_refuses_what_no_hook_of_python_sees(tmp_path: Path, call: str) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    program = (
        "import ctypes, os, pathlib, resource, signal, socket, sqlite3\n"
        "from selfwire.extras.adopt.guard import restrict\n"
        f"OUTSIDE, PARENT = {str(outside)!r}, {os.getpid()}\n"
        f"restrict(pathlib.Path({str(folder)!r}), print)\nopen('own', 'w').close()\n{call}\n"
    )
    command = confine(folder)
    if not command:
        pytest.skip("bubblewrap does not work here")
    done = subprocess.run([*command, sys.executable, "-c", program], capture_output=True, text=True, cwd=folder)
    assert (folder / "own").exists(), done.stderr
    assert (list(outside.iterdir()), done.stdout) == ([], "")


REACH = """
import ctypes, pathlib, socket, struct
from selfwire.extras.adopt.guard import restrict
restrict(pathlib.Path.cwd(), print)
ours, theirs = socket.socketpair()
socket.socket(socket.AF_INET).close()
libc = ctypes.CDLL(None)
address = struct.pack("H", socket.AF_UNIX) + b"outside.sock\\0"
made = libc.socket(socket.AF_UNIX, 1, 0)
print(made, libc.connect(made, address, len(address)), libc.send(made, b"hello", 5, 0), libc.socket(40, 1, 0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux refuses it")
@pytest.mark.parametrize("is_enclosed", [True, False])
def test_no_program_that_listens_in_the_file_system_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_enclosed: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("outside.sock")
        listener.listen()
        command = confine(tmp_path) if is_enclosed else ()
        done = subprocess.run([*command, sys.executable, "-c", REACH], capture_output=True, text=True, check=True)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert done.stdout.split() == ["-1"] * 4


def test_a_program_that_does_not_end_is_stopped(write: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    write("while True:\n    pass\n" + GRAPH)
    monkeypatch.setattr(confirming, "SECONDS", 0.5)
    with pytest.raises(ConfigError, match=r"graph 'app:graph' cannot be imported: stopped after 0.5 s"):
        confirm_program(read_program("app:graph"))


def make_text(*pieces: str, **more: Any) -> ProgramText:
    holes = tuple("x" for _ in pieces[1:])
    return ProgramText(
        kind="constant", name="", role="", pieces=pieces, holes=holes, file="a.py", line=1, end_line=1, **more
    )


def test_a_text_is_found_once_and_not_inside_a_longer_one() -> None:
    finder = RequestTexts(
        [
            make_text("Answer the question."),
            make_text("the question"),
            make_text("Notes: ", "\n", ""),
            make_text("no"),
            make_text("Notes:  ", " "),
        ]
    )
    assert finder.find(["Answer the\n  question. Nothing else."]) == ({0}, ["Nothing else."])
    assert finder.find(["Notes: the question\nno"])[0] == {1, 2, 3, 4}
    assert finder.find(["Note: answer the questions"])[0] == set()


def test_words_of_canned_replies_are_no_text_of_another_package() -> None:
    rest = ["YES YES\nYES YES", "Say no to nothing that is new."]
    assert [*list_unknown(rest, {"YES", "no"})] == ["Say to nothing that is new."]


def test_texts_of_an_agent_that_a_tool_asks_wait_for_this_tool() -> None:
    found = confirm_graph("laboratory")
    assert isinstance(found, Confirmation)
    unreached = {text.text: text.unreached for text in found.texts if text.unreached}
    waits = "the tool ask_chemist was not run; --call-tools runs tools"
    assert unreached["Compute the molar mass of a formula such as H2O."] == waits
    assert unreached["The head of the lab asks: {question}"] == waits


def test_a_block_of_a_template_may_be_left_out_or_sent_twice() -> None:
    pieces = ("Topic: ", ".\n", "\nRead by ", ".\n", "\n", "\n- Point ", "\n", "\nBe brief.")
    holes = ("topic", "if reader", "reader", "endif", "for p in points", "p", "endfor")
    text = make_text(*pieces).replace(holes=holes)
    for sent in ("Topic: tax.\n\nBe brief.", "Topic: tax.\n\nRead by all of you.\n\n- Point 1\n- Point 2\n\nBe brief."):
        found, rest = RequestTexts([text]).find([sent])
        assert found == {0}
        assert "Read by" not in rest[0]


def test_replies_fit_what_is_asked_and_choices_take_turns() -> None:
    replies = CannedReplies(["bill", "APPROVED"], lambda request: None, calls_tools=False)
    schema = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["a", "b"]},
            "score": {"type": "integer", "minimum": 1, "maximum": 5},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "$defs": {"Part": {"type": "object", "properties": {"is_new": {"type": "boolean"}}}},
    }
    made = [replies.fill(schema, schema) for _ in range(2)]
    assert made[0] == {"kind": "a", "score": 5, "parts": [{"is_new": True}, {"is_new": False}], "note": PLAIN}
    assert (made[1]["kind"], made[1]["score"]) == ("b", 1)
    asked = "Answer bill, or APPROVED."
    assert [replies._make_text("node", asked) for _ in range(3)] == ["bill", "APPROVED", PLAIN]
    assert replies._make_text("other", 'Reply as {"right": true}.') == '{"right": true}'


def test_a_schema_that_holds_itself_ends() -> None:
    tree: dict[str, Any] = {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}
    whole = {"$ref": "#/$defs/Tree", "$defs": {"Tree": tree}}
    replies = CannedReplies([], lambda request: None, calls_tools=False)
    assert len(json.dumps(replies.fill(whole, whole))) < 500


def test_keys_are_not_passed_on(write: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "a real token")
    monkeypatch.setenv("SHOP_NAME", "Corner")
    write(
        GRAPH.replace(
            '"You chat."',
            '"Say " + __import__("os").environ.get("SHOP_TOKEN", "nothing") + __import__("os").environ["SHOP_NAME"]',
        )
    )
    [(_, said)] = confirm().unknown or (("", ""),)
    assert "real" not in said
    assert os.environ["SHOP_TOKEN"] == "a real token"
