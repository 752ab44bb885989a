"""Copies of train tasks in rewirings: planted ones are found, honest texts pass."""

import random
import time
from collections.abc import Iterator

import pytest

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, Rewiring, RewritePrompt
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evals.instructions import paraphrases
from selfwire.evolvers.copies import TaskTexts, find_copies, list_task_sentences

TEAM = Team(method="m", agents=(Agent(id="a", prompt="Work on the task as far as you can."),), topology=make_chain("a"))
FORM = "Answer in one word.\n\n"
PLACES = ("Arlsund", "Bremholt", "Castelmar", "Dunvale", "Eskfield", "Farlowe", "Gildham", "Harbeck")
NOUNS = (
    "workshop mill street owner apprentice ledger bridge harbour winter letter garden tower market ship teacher river "
    "window candle road village clock baker wagon stone field barrel rope lantern church forest"
).split()
VERBS = "opened closed sold bought found lost moved burned painted mended carried hid counted weighed".split()
HOW = "beside behind under before without against near across".split()
WORDS = {0: "zero", 1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}
TENS = {2: "twenty", 3: "thirty", 4: "forty", 5: "fifty", 6: "sixty", 7: "seventy", 8: "eighty", 9: "ninety"}


def tasks(count: int = 60) -> list[Task]:
    """Questions of one form, whose stories are drawn from one vocabulary."""
    draw, found = random.Random(5), list[Task]()
    for number in range(count):
        story = ". ".join(
            f"In {draw.randrange(1800, 2000)} the {draw.choice(NOUNS)} of {draw.choice(PLACES)} {draw.choice(VERBS)} "
            f"the {draw.choice(NOUNS)} {draw.choice(HOW)} the {draw.choice(NOUNS)}"
            for _ in range(4)
        )
        text = f"{FORM}{story}. Which {draw.choice(NOUNS)} was it?"
        found.append(Task(id=str(number), input=text, reference=f"{draw.choice(PLACES)} Lane {number + 300}"))
    return found


TASKS = tasks()
KNOWN = TaskTexts.of(TASKS)


def in_words(number: str) -> str:
    """A number digit by digit, and a year as it is said."""
    tens = TENS.get(int(number[-2]))
    if len(number) < 4 or tens is None:
        return " ".join(WORDS[int(digit)] for digit in number)
    return f"{'eighteen' if number.startswith('18') else 'nineteen'} {tens} {WORDS[int(number[-1])]}"


def plant() -> Iterator[str]:
    """200 copies: of runs and of references, verbatim, in other case, with other spaces, with digits in words."""
    draw = random.Random(9)
    for number in range(200):
        task = draw.choice(TASKS)
        words = task.input.removeprefix(FORM).split()
        at = draw.randrange(len(words) - 12)
        text = " ".join(words[at : at + 12]) if number % 2 else str(task.reference)
        change = number // 2 % 4
        if change == 1:
            text = text.upper() if draw.random() < 0.5 else text.title()
        elif change == 2:
            text = text.replace(" ", "  \n ") if number % 2 else text.replace(" ", "   ")
        elif change == 3:
            text = " ".join(in_words(word) if word.isdigit() else word for word in text.split())
        yield f"You find streets. {text} is what matters. Name your source."


def write_honestly() -> Iterator[str]:
    """2,000 honest prompts: the instructions of the offline stand-in, and general rules in the words of the tasks."""
    draw = random.Random(3)
    instructions = [text for texts in paraphrases().values() for text in texts]
    rules = (
        "When a task tells of a {0}, look up the {1} first and the {2} second.",
        "Read who {3} the {0} before you ask where the {1} stood.",
        "Count each {0} only where the text says who {3} it.",
        "For a question on a {0}, name the {1} and nothing else, in one word.",
        "If one {0} stands {4} another, tell them apart by their {1}.",
    )
    for _ in range(2000):
        own = draw.sample(instructions, 2)
        rule = draw.choice(rules).format(*draw.sample(NOUNS, 3), draw.choice(VERBS), draw.choice(HOW))
        yield f"You are careful. {own[0]} {rule} {own[1]}"


def copies(prompt: str, team: Team = TEAM) -> dict[int, str]:
    return find_copies([Rewiring(RewritePrompt("a", prompt), why="better")], team, KNOWN)


def test_planted_copies_are_found() -> None:
    found = [bool(copies(text)) for text in plant()]
    assert sum(found) >= 0.95 * len(found) == 190


def test_honest_texts_pass() -> None:
    refused = [text for text in write_honestly() if copies(text)]
    assert len(refused) <= 10, refused[:3]


def test_the_passage_is_shown() -> None:
    task = TASKS[3]
    assert copies(f"Remember: {task.input.removeprefix(FORM)}")[0] in task.input
    assert copies(f"The answer is often {task.reference}.")[0] == str(task.reference).lower()


@pytest.mark.parametrize("text", [FORM * 3, "Which workshop was it? Which river was it?"])
def test_what_a_tenth_of_the_tasks_share_is_no_copy(text: str) -> None:
    assert copies(text) == {}


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("12 March 1912", "12March1912"),
        ("12 March 1912", "twelfth March nineteen twelve"),
        ("12 March 1912", "March 12th, 12th March 1912"),
        ("Harbeck Lane 302", "harbecklane302"),
        ("Harbeck Lane 302", "H a r b e c k  L a n e  3 0 2"),
        ("Harbeck Lane 302", "Harbeck Lane three oh two"),
        ("2500000", "2 500 000"),
        ("2500000", "2.5 million"),
        ("3.14159", "three point one four one five nine"),
        ("$1,250.00", "one thousand two hundred and fifty"),
        ("Zürichsee", "zurichsee"),
        ("iron sword x2", "ironSwordX2"),
        ("317", "In 2024 317 people"),
        ("417", "It is 417.000 and"),
        ("12000", "12 thousand"),
        ("the 21st of May 1999", "the twenty-first of May 1999"),
        ("2 May 1935", "May 2, 1935"),
        ("2 May 1935", "1935-05-02"),
        ("2 May 1935", "date(1935, 5, 2)"),
        ("2 May 1935", "05/02/1935"),
        ("2 May 1935", "the second of May, 1935"),
        ("26 September 1920", "Sept. 26th, 1920"),
        ("1920-09-26", "26.9.1920"),
        ("41000", "41k"),
        ("400", "It was 400. This"),
        ("31.1 km", "31.1 kilometers"),
        ("47 minutes", "47 min"),
        ("Otto Brand Hall", '["Otto\\nBrand\\nHall"]'),
        ("Zürichsee", '"Z\\u00fcrichsee"'),
        ("53 Old Street, Harbeck", "?q=53+Old+Street%2C+Harbeck"),
        ("Otto Brand Hall", "Otto&nbsp;Brand&nbsp;Hall"),
        ("Otherholm", "It is Other-\nholm which"),
        ("Otto Brand", "Brand, Otto"),
        ("the hall and the mill of Otto", "hall, mill of Otto"),
        ("copper, zinc, gallium", "copper, zinc and gallium"),
        ("1.50", "one point five zero"),
        ("1,50", "1.50"),
        ("The Times", "It stood in the Times and"),
        ("1969", "Apollo 11 landed on 20 July 1969. It"),
        ("July 1969", "Apollo 11 landed on 20 July 1969. It"),
        ("July 1969", "1969-07-20"),
        ("1842", "Take 1842, 7, 12"),
        ("1842", "The answer is 1842 words. It"),
        ("1842 tokens", "1842 tokens in 12 rows or"),
        ("350 lines", "It has 350 lines. This"),
        ("20 boxes", "There are 20 boxes. This"),
        ("9 beavers", "The river has nine beavers. This"),
        ("100 metres", "Run 100 m. This"),
        ("Twenty horses", "Use 20 horses. This"),
        ("about 47 litres", "about 47 l"),
        ("03/04/1999", "3 April 1999"),
        ("03/04/1999", "March 4th, 1999"),
        ("March 12", "12 March"),
        ("12 March", "Mar. 12th"),
        ("Zürichsee", "\u200b".join("Zürichsee")),
        ("Zürichsee", "Zürich\u00adsee"),
        ("4417", "4\u200d4\u206017"),
        ("Otherholm", "".join(f"{letter}\ufe0f" for letter in "Otherholm")),
        ("Otherholm", "\u041e\u0442\u04bb\u0435rh\u043elm"),  # in Cyrillic
        ("Otherholm", "\u039fth\u03b5rh\u03bflm"),  # in Greek
        ("Otherholm", "".join(chr(ord(letter) + 0xFEE0) for letter in "Otherholm")),  # full-width
        ("Otherholm", "".join(f"\\x{ord(letter):02x}" for letter in "Otherholm")),
        ("Otherholm", "ᴏᴛʜᴇʀʜᴏʟᴍ"),
        ("Rosebud", "ʀᴏꜱᴇʙᴜᴅ"),
        ("London", "LO\u039dDO\u039d"),
        ("New York City", "\u039dEW \u03a5ORK CITY"),
        (
            "\u039a\u03b1\u03b6\u03b1\u03bd\u03c4\u03b6\u03ac\u03ba\u03b7\u03c2",
            "\u039a\u0391\u0396\u0391\u039d\u03a4\u0396\u0391\u039a\u0397\u03a3",
        ),  # a Greek name
        ("石家庄铁道大学", "是石家庄铁道大学的"),  # Chinese has no spaces
        ("3585", "三千五百八十五个"),
        ("7091", "七千零九十一"),
        ("120300", "十二万零三百"),
        ("2021年", "二〇二一年"),
        ("3 September 2001", "在2001年9月3日"),
        ("Otto Brand", "def findOttoBrand(text):"),
        ("teapot, ladder, hammock", "a ladder, a hammock and a teapot"),
        ("teapot, iron ladder, hammock", '["hammock", "teapot", "iron ladder"]'),
        ("张伟明", "他叫张伟明"),
        ("张伟明。", "他叫张伟明"),
        ("국립중앙박물관도서관", "국립중앙박물관도서관은"),  # Korean, with a particle
    ],
)
def test_a_reference_is_found_however_its_words_and_numbers_are_written(reference: str, text: str) -> None:
    """And not where only its letters stand, inside of other words."""
    others = [Task(id=f"{number}", input="?", reference=f"Eskfield {number + 900}") for number in range(30)]
    known = TaskTexts.of([Task(id="t", input="?", reference=reference), *others])
    assert known.find_copy(f"You find streets. {text} is what matters. Name your source.")
    assert not known.find_copy("You find streets. A source is what matters. Name it in a row, 12 or 30 words long.")


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("Other Eye", "Ask the mother, eyeing what she says."),
        ("Second", "1. Read the task twice.\n2. List what it names."),
        ("123", "First, second, and third, check the units. Steps one, two, three."),
        ("1234567", "Go through parts 1 2 3 4 5 6 7 8."),
        ("Together", "Help the user to get her answer."),
        ("1000000", "hundred " * 3000),
        ("1999", "Write dates as 5 June 1999 or 1999-06-05."),
        ("March", "Months are written in full: March, not Mar."),
        ("the first", "First read the task, then ask what the first step is."),
        ("3 steps", "Work in 3 steps."),
        ("150", "Keep it under 150 words."),
        ("100", "Give your trust as a number from 0 to 100."),
        ("200", "For example, 25 dollars an hour for 8 hours are 200 dollars."),
        ("Clerk", "Ask which clerk the question names."),
        ("150 words", "Use few words."),
        ("the", ""),
        ("1.50", "Choose a number between 1 and 50."),
        ("12.5", "Do steps 12, 5 and 7."),
        ("3.14", "Versions 3, 14 differ."),
        ("1,2,3", "Do steps 1, 2 and 3."),
        ("A dog", "Treat each dog alike."),
        ("The Who", "Say who did it."),
        ("The Times", "Check three times."),
        ("1842 met", "Walk 1842 m to the north."),
        ("Twelve lit rooms", "Fill 12 l rooms."),
        ("20 boxes", "Of 30 parcels 20 boxes are left."),
        ("20 tokens", "Write at most 20 tokens."),
        ("teapot, ladder, hammock", "Count each teapot, then each ladder, and the hammock."),
        ("周五。", "他周五来"),  # Friday, no name of three letters
        ("方法A", "方法A和B"),
    ],
)
def test_what_chance_or_a_list_makes_of_words_is_no_copy(reference: str, text: str) -> None:
    assert not TaskTexts.of([Task(id="t", input="Who is the clerk?", reference=reference)]).find_copy(text)


@pytest.mark.parametrize(
    ("task", "refused"), [("how far is paris from london", True), ("How do I plaster with paris?", False)]
)
def test_a_word_that_tasks_write_small_is_a_name_only_where_they_have_no_capitals(task: str, refused: bool) -> None:
    known = TaskTexts.of([Task(id="t", input=task, reference="Paris")])
    assert bool(known.find_copy("It is paris.")) == refused


def test_a_task_that_differs_from_others_by_its_numbers_is_found() -> None:
    several = [f"A shelf has {number} rows of books; a clerk brings {2 * number} more." for number in range(40)]
    known = TaskTexts.of([Task(id=text, input=text, reference="?") for text in several])
    assert "23 rows of books" in known.find_copy(f"Known: {several[23].upper()}")
    assert not known.find_copy("A shelf has 50 rows of books; a clerk brings 7 more.")
    assert not known.find_copy(f"Known: {several[23]}", known=several[23])


def test_a_word_with_an_accent_that_tasks_write_small_is_no_name() -> None:
    known = TaskTexts.of([Task(id="t", input="In which café was it?", reference="Café")])
    assert not known.find_copy("Ask for the café.")


@pytest.mark.parametrize(
    ("task", "text"),
    [
        (f"Which is it: {', '.join(map(str, range(3011, 4000, 83)))}?", ",".join(map(str, range(3011, 4000, 83)))),
        ("".join(map(chr, range(0x5200, 0x5220))), "".join(map(chr, range(0x5208, 0x5216)))),
    ],
)
def test_a_run_is_found_in_numbers_without_spaces_and_in_fourteen_letters_of_chinese(task: str, text: str) -> None:
    known = TaskTexts.of([Task(id="t", input=task, reference="?")])
    assert known.find_copy(f"Known: {text}.")
    assert not known.find_copy(f"Known: {text[::-1]}.")


@pytest.mark.parametrize(
    ("task", "reference", "text"),
    [
        ("他用电子邮件还是电话？", "电子邮件", "查电子邮件。"),
        ("?", "无法确定", "如果无法确定，请再查一次。"),
        ("?", "わからない", "わからない場合は調べてください。"),
        ("?", "ถูกต้อง", "ตอบให้ถูกต้องเสมอ"),
        ("?", "모르겠다", "모르겠다면 검색하라"),
    ],
)
def test_a_word_of_a_script_without_capitals_is_no_name(task: str, reference: str, text: str) -> None:
    assert not TaskTexts.of([Task(id="t", input=task, reference=reference)]).find_copy(text)


def test_a_passage_without_spaces_is_shown_as_it_is_written() -> None:
    known = TaskTexts.of([Task(id="t", input="?", reference="국립중앙박물관도서관")])
    assert known.find_copy("답은 국립중앙박물관도서관이다.") == "국립중앙박물관도서관"
    passage = "".join(map(chr, range(0x5200, 0x5220)))
    known = TaskTexts.of([Task(id="t", input=passage, reference="?")])
    shown = known.find_copy(f"{'前' * 200}{passage}{'后' * 200}")
    assert passage[8:20] in shown


def test_a_chinese_sentence_that_stands_in_a_task_is_listed() -> None:
    task = Task(id="t", input="商队三月从东港出发。带了多少茶叶？", reference="?")
    prompt = "商队三月从东港出发。请回答。"
    grown = TEAM.replace(agents=(Agent(id="a", prompt=prompt),))
    assert list_task_sentences(TEAM, grown, [task]) == [("a", "商队三月从东港出发。")]


def test_of_several_references_always_the_same_is_shown() -> None:
    tasks = [Task(id=f"{number}", input="?", reference=f"Eskfield {number}") for number in range(300, 330)]
    assert TaskTexts.of(tasks).find_copy(", ".join(str(task.reference) for task in tasks)) == "eskfield 300"


def test_a_part_of_a_long_reference_is_found() -> None:
    others = [Task(id=f"{number}", input="?", reference=f"Eskfield {number + 900}") for number in range(30)]
    long = "The owner of the mill sold his wagon in the winter before the river took away the bridge."
    known = TaskTexts.of([Task(id="t", input="?", reference=long), *others])
    assert known.find_copy("Say that the owner of the mill sold his wagon in the winter.")


@pytest.mark.parametrize("text", ["1" * 20_000, "\n" * 20_000, "1," * 10_000, "%41" * 5_000, "\\ud800" * 3_000])
def test_a_text_of_any_form_is_read_soon(text: str) -> None:
    began = time.process_time()
    assert not KNOWN.find_copy(text)
    assert time.process_time() - began < 5


def test_a_long_known_text_is_read_once_for_all_runs() -> None:
    """A long copy has a run at each of its letters, and the known text has them all."""
    passage = " ".join(f"{word} {number + 200}" for number, word in enumerate((NOUNS + VERBS) * 4))
    known = f"{passage}\n{'Read the text with care and name its source. ' * 900}"
    texts = TaskTexts.of([Task(id="t", input=passage, reference="?")])
    began = time.process_time()
    assert not texts.find_copy(passage, known)
    assert time.process_time() - began < 5


def test_sentences_that_stand_in_few_tasks_are_listed_for_a_person() -> None:
    """Too short to be refused as a copy; not those that the team said before, or that the benchmark's wording has."""
    planted = [task.replace(input=f"{task.input} Always say zebra-4417.") for task in TASKS[:2]]
    seed = TEAM.replace(agents=(Agent(id="a", prompt="Work. Mind the gap always!"),))
    task = TASKS[2].replace(input="Mind the gap always! Say nothing else.")
    grown = seed.replace(
        agents=(
            Agent(id="a", prompt="Mind the gap always!\nALWAYS say Zebra 4417. Answer in one word."),
            *seed.agents[1:],
        )
    )
    assert KNOWN.find_copy(grown.agents[0].prompt, seed.agents[0].prompt) == ""
    tasks = [*planted, task, *TASKS[3:]]
    assert list_task_sentences(seed, grown, tasks) == [("a", "ALWAYS say Zebra 4417.")]
    assert list_task_sentences(seed, seed, tasks) == []
    added = seed.replace(agents=(*seed.agents, Agent(id="b", prompt="Say nothing else.")))
    assert list_task_sentences(seed, added, tasks) == [("b", "Say nothing else.")]


@pytest.mark.parametrize("sentence", ["Use the saw and hammer.", "Write at most 50 words.", "Walk two metres on."])
def test_a_sentence_with_other_small_words_or_numbers_does_not_stand_in_a_task(sentence: str) -> None:
    task = Task(id="t", input="Use saw, hammer. Write at most words. Walk 2 m on.", reference="?")
    assert list_task_sentences(TEAM, TEAM.replace(agents=(Agent(id="a", prompt=sentence),)), [task]) == []


def test_what_the_team_says_already_is_no_copy() -> None:
    passage = TASKS[7].input.removeprefix(FORM)
    seeded = TEAM.replace(agents=(Agent(id="a", prompt=passage),))
    assert copies(f"{passage} Be brief.", seeded) == {}
    assert copies(f"{passage} Be brief.")


def test_only_the_rewiring_that_copies_is_named_and_every_text_of_an_edit_is_read() -> None:
    honest = Rewiring(RewritePrompt("a", "Be brief."), why=TASKS[1].input)  # a reason reaches no model
    agent = Agent(id="b", role=TASKS[1].input.removeprefix(FORM), prompt="Help.")
    assert list(find_copies([honest, Rewiring(AddAgent(agent), why="help")], TEAM, KNOWN)) == [1]


@pytest.mark.parametrize("benchmark", ["archive", "plancraft", "tariffs"])
def test_instructions_of_the_benchmarks_are_no_copies_of_their_tasks(benchmark: str) -> None:
    known = TaskTexts.of(load_benchmark(benchmark, size=200).splits(0, train=60, gate=0, test=0).train)
    texts = [text for texts in paraphrases().values() for text in texts]
    refused = [text for text in texts if known.find_copy(text)]
    assert refused == []
