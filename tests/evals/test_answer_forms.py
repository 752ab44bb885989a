"""Named graders over the forms in which methods, baselines and models write their answers."""

import time
from importlib.resources import files

import pytest

from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.evals.baselines import choose_by_vote
from selfwire.evals.graders import (
    BY_LABEL,
    MEASURES,
    NAMED,
    compare,
    find_graded_text,
    lists_options,
    load_grader,
    to_ballot,
)

SCOPE = Scope()
EVIDENCE = "The register names 12 builders; the 3rd line calls Ada Lovelace the first."
FORMS = {
    "bare, as direct, HiVA's aggregator and EvoMAS's synthesis write it": "{}",
    "with a full stop": "{}.",
    "in quotes": '"{}"',
    "in curly quotes and a full stop": "\u201c{}\u201d.",
    "with a full stop inside the quotes": '"{}."',
    "in bold": "**{}**",
    "as code": "`{}`",
    "with space around it": "\n  {}  \n",
    "labelled, as HERA's generator writes it": "Answer: {}",
    "labelled in capitals": "ANSWER: {}",
    "labelled in small letters": "answer: {}",
    "labelled as final, as TacoMAS's reflector writes it": "Final Answer: {}",
    "labelled as final in small letters": "final answer: {}.",
    "with a bold label": "**Answer:** {}",
    "with a colon after the bold label": "**Answer**: {}",
    "with an underlined label": "__Answer__: {}",
    "with a bold line": "**Final Answer: {}**",
    "with a bold label and a bold answer": "**Final Answer:** **{}**.",
    "under a heading": "## Final Answer: {}",
    "in a bullet": "- Answer: {}",
    "in a quotation": "> Answer: {}",
    "on the line below the label": "Answer:\n{}",
    "a paragraph below the label": "### Answer:\n\n{}\n",
    "labelled in quotes": 'Answer: "{}"',
    "after evidence, as TacoMAS writes it": f"{EVIDENCE}\n\nFinal Answer: {{}}",
    "after evidence, as HERA writes it": f"{EVIDENCE}\nAnswer: {{}}.",
    "after steps, as cot and self-consistency write it": f"1. {EVIDENCE}\n2. 3 + 4 = 7\n3. Done.\nAnswer: {{}}",
    "after findings, as draft, refine and peer write it": f"- {EVIDENCE}\n- Nothing is open.\n\n**Answer:** {{}}",
    "after a debate": f"My colleague says Babbage or Byron.\n{EVIDENCE}\nAnswer: {{}}",
    "before a remark": "Answer: {}\n\nThis rests on 2 sources, Babbage and Byron.",
    "after an empty label": "Answer:\nFinal Answer: {}",
    "twice the same": "Answer: {}\nFinal Answer: **{}.**",
    "in a box": "\\boxed{{}}",
    "in a box and a formula": "$\\boxed{\\text{{}}}$.",
    "labelled, in a box": "The sum is done.\nFinal Answer: \\(\\boxed{{}}\\)",
    "in guillemets": "\u00ab{}\u00bb",
    "in low quotes": "Answer: \u201e{}\u201c.",
    "in corner quotes, with a stop of its own": "Answer: \u300c{}\u300d\u3002",
    "in a block of code": "```text\n{}\n```",
    "a block of code below the label": "Answer:\n```\n{}\n```\n7 of 12 were read.",
    "the label in a block of code": "```\nAnswer: {}\n```",
    "a wide colon": "Answer\uff1a{}",
    "a heading without a colon": f"{EVIDENCE}\n\n### Final Answer\n\n{{}}",
    "a bold line without a colon": f"{EVIDENCE}\n\n**Final Answer**\n{{}}",
    "a heading and a label": f"## Answer\n\n{EVIDENCE}\n\nAnswer: {{}}",
    "as a step of a list": f"1. {EVIDENCE}\n2. **Answer:** {{}}",
    "in a round bullet": "\u2022 Answer: {}",
    "with a sign before the label": "\u2705 Answer: {}",
    "a bullet below the label": "Answer:\n- {}",
    "with carriage returns": f"{EVIDENCE}\r\nAnswer: {{}}\r\n7 of 12 were read.",
    "with signs that nobody sees": "\ufeffAnswer: \u200b{}",
    "with a hyphen": "Final-Answer: {}",
    "under two labels": "Answer: Final Answer: {}",
    "before a line of another label": "Answer: {}\nConfidence: 90 %\nSource: passage 3",
    "before a rule": "Answer: {}\n\n---",
    "after thoughts with a label": "<think>\nAnswer: Babbage?\nNo, 417.\n</think>\n\nAnswer: {}",
    "behind an arrow": f"{EVIDENCE}\n**Answer** => {{}}.",
    "behind an arrow alone": "-> {}",
    "behind a label and an arrow": "Answer: \u21d2 {}",
    "in a cell": "| {} |",
    "in a row of a table": f"{EVIDENCE}\n| **Answer:** | {{}} |\n| Sure | yes |",
    "in a table with a head": f"{EVIDENCE}\n\n| Step | Answer |\n|:---|---|\n| 7 | **{{}}** |\n\nThis is all.",
    "in quotes with its label": f'{EVIDENCE}\n"Answer: {{}}"',
    "in a tag": f"{EVIDENCE}\n<answer>{{}}</answer>",
    "in a tag behind a label": "Answer: <answer>\n{}\n</answer>",
    "labelled in German, as the task asks": f"{EVIDENCE}\n\n**Antwort:** {{}}",
    "labelled in French, with its space": f"{EVIDENCE}\nR\u00e9ponse finale\u00a0: {{}}.",
    "labelled in Japanese": f"{EVIDENCE}\n\u7b54\u3048\uff1a{{}}\u3002",
    "after thoughts, bare": "Perhaps Byron, or 7.</think>{}",
    "after thoughts with a draft": "Let me see.\nAnswer: Byron, 7\nNo.\n</think>\n\nAnswer: {}",
}
"""Forms of the same final words, by how they are written."""
WORDS: dict[str, dict[str, dict[str, float]]] = {
    "Ada Lovelace": {
        "Ada Lovelace": dict(exact=1, em=1, f1=1, contains=1),
        "Ada": dict(exact=0, em=0, f1=2 / 3, contains=0),
        "the ada lovelace": dict(exact=0, em=1, f1=1, contains=1),
        "Countess Ada Lovelace": dict(exact=0, em=0, f1=0.8, contains=1),
        "Charles Babbage": dict(exact=0, em=0, f1=0, contains=0),
    },
    "1280": {
        "1280": dict(exact=1, em=1, f1=1, contains=1, numeric=1),
        "1,280 metres": dict(exact=0, em=0, f1=2 / 3, contains=1, numeric=1),
        "-1280": dict(exact=0, em=1, f1=1, contains=1, numeric=0),
        "417": dict(exact=0, em=0, f1=0, contains=0, numeric=0),
    },
    "A": {"A": dict(exact=1, em=1, f1=1, contains=1), "(B)": dict(exact=0, em=0, f1=0, contains=0)},
}
"""Scores by reference and final words."""
WORTHLESS = {
    "two different labelled lines": "Answer: billing\nAnswer: returns",
    "a wrong last line after a right one": "Answer: billing\n\nFinal Answer: returns",
    "a right last line after a wrong one": "Answer: returns\nFinal Answer: **billing**",
    "the right one between wrong ones": "Answer: returns\nAnswer: billing\nAnswer: returns",
    "a last label with nothing behind it": "Answer: billing\nAnswer:",
    "a list with commas": "billing, shipping, returns",
    "a list without spaces": "billing,shipping,returns",
    "a list with slashes": "billing/shipping/returns",
    "a list with spaced slashes": "shipping / billing",
    "a list with bars": "billing | shipping | returns",
    "a list with semicolons": "shipping; billing",
    "a list with or": "It is shipping, returns, or billing.",
    "a list of two": "billing or shipping",
    "a list with and": "The desks are billing, shipping and returns",
    "a list of lines": "billing\nshipping\nreturns",
    "a list of lines with the right one last": "shipping\nreturns\nbilling",
    "a list of sentences": "Billing.\nShipping.\nReturns.",
    "a list of bullets": "- shipping\n- billing",
    "a numbered list": "1. shipping\n2. billing\n3. returns",
    "a list after a colon": "Possible desks: shipping, billing, returns.",
    "a labelled list": "Answer: billing, shipping, returns",
    "a labelled choice": "I am not sure.\nFinal Answer: **shipping or billing**.",
    "a list of bullets below the label": "Answer:\n- billing\n- shipping\n- returns",
    "a list of lines below the label": "**Final Answer**\nbilling\nshipping\nreturns",
    "a list of bullets with empty lines below the label": "Answer:\n- billing\n\n- shipping\n\n- returns",
    "a list in a block of code": "Answer:\n```\nbilling\nshipping\nreturns\n```",
    "a wrong heading after a right line": "Answer: billing\n\n### Final Answer\nreturns",
    "a right thought before a wrong answer": "<think>Answer: billing</think>\nAnswer: returns",
    "two rows of a table": "| Answer |\n|---|\n| billing |\n| returns |",
    "a row of options": "| billing | returns |",
    "a row of answers": "| Question | First | Second |\n| Answer | billing | returns |",
    "two arrows": "Answer => billing\nAnswer => returns",
    "two boxes": "\\boxed{billing} or \\boxed{shipping}",
}
"""Texts that do not decide for "billing", which each of them names."""
NUMBERS = {
    "two different labelled lines": "Answer: 4\nAnswer: 5",
    "two signs": "Answer: -5\nAnswer: 5",
    "two decimal points": "Answer: 50\nAnswer: 5.0",
    "a list": "3, 4, 5",
    "a list without spaces": "3,4,5",
    "a choice": "It is 4 or 5.",
    "a list of lines": "- 3\n- 4\n- 5",
    "a labelled list": "Answer: 3, 4, 5",
    "a list below the label": "Answer:\n5\n4\n3",
    "a list with empty lines below the label": "Answer:\n- 5\n\n- 4\n\n- 3",
    "an exponent": "Answer: 10^5",
    "a choice of powers": "Answer: 5 or 10^1",
    "a mixed number": "Answer: 4 1/5",
    "a power of ten": "Answer: 2.5 \u00d7 10^5",
    "a fraction": "Answer: 4/5",
}
WRITTEN = {
    "1,280 metres": 1280, "1\u202f280 m": 1280, "1\u00a0280.0": 1280, "1.28 \u00d7 10^3": 1280,
    "1.28 \\times 10^{3}": 1280, "12.8e2": 1280, "$1,280.": 1280,
    "\u22121280": -1280, "3/4 of it": 0.75, "0.75": "3/4", "-3/4": -0.75, "2020/5/12": 12, "5 x 10": 10,
    "10^5": 100_000, "6.02 \u00d7 10\u00b2\u00b3": "6.02e23", "10\u207b\u00b2": 0.01,
    "3\u202f\u00d7\u202f10^2": 300, "3 \u00b7 10**2": 300,
    "\\frac{3}{4}": 0.75, "$\\boxed{\\dfrac{3}{4}}$": "3/4", "3 1/2": 3.5, "$3\\frac{1}{2}$": 3.5, "-3 1/2": -3.5,
    "7/2": 3.5, "1/1024": 0.0009765625,
}  # fmt: skip
"""Numbers by how answers write them."""
DECIDED = {
    "a place in a country": ("Paris, France", "Paris"),
    "an opinion": ("It was Ada, I think.", "Ada"),
    "a sentence with and": ("It was Ada and she was clever", "Ada"),
    "a sentence with or before it": ("Whether by ship or by train, the crossing takes two hours", "two hours"),
    "a sentence about a person": ("Ada, Countess of Lovelace, wrote the first program and published it in 1843", "Ada"),
    "the whole list is expected": ("red, green and blue", "red, green and blue"),
    "a name with and": ("It was Simon and Garfunkel", "Simon and Garfunkel"),
    "a fraction": ("It is 3/4", "3/4"),
    "a line after reasoning": ("The task names two sizes.\nThe larger one decides the matter.\nAda", "Ada"),
    "the same twice": ("Ada or Ada", "Ada"),
}


NATURAL = {
    ('{"answer": 5}', "exact em f1 contains numeric"): [
        '{"answer": 5}',
    ],
    ('{"answer": "x"}', "exact em f1 contains"): [
        '{"answer": "x"}',
    ],
    ('{\n  "answer": 5,\n  "why": "b"\n}', "exact em f1 contains numeric"): [
        '{\n  "answer": 5,\n  "why": "b"\n}',
    ],
    ("5", "contains numeric"): [
        '{"answer": 5}',
        "m = 5, n = 5",
        "Answer: 5 m",
        "Answer: x = 5",
        "5/5 tests: 5",
        '{"result": 5}',
        "answer = 5",
        "1. Answer: 5",
    ],
    ("Paris", "contains"): [
        '{"answer": "Paris"}',
        '{\n  "final answer": "Paris"\n}',
        '"answer": "Paris"',
        "(Answer: Paris)",
        "[Answer: Paris]",
        "## Answer\n\nThe capital of France is:\n\n**Paris**",
        "## Answer\n\nIt is the city on the Seine.\nIts name is Paris.",
        "**Answer**\n\n---\n\nParis",
        "Answer\n------\n\nParis",
        "## Answer\n\nParis\n",
        "### Answer\n\nParis is the capital of France.",
        "### Answer\n\n**Paris** is the capital.\n\nIt lies on the Seine.",
        "So the final answer:\nParis",
        "Answer:\nParis, France\nEurope\nEarth",
        "The capital of France is **Paris**.",
        '{"city": "Paris", "answer": "yes"}',
    ],
    ("42", "numeric"): [
        "**Final Answer**\n\n\\[\n\\boxed{42}\n\\]",
        "**Final Answer**\n\n\\[\n40 + 2 = \\boxed{42}\n\\]",
        "The final answer is $\\boxed{42}$.",
    ],
    ("42", "contains numeric"): [
        "## Final Answer\n\n$$\n42\n$$",
        "Answer\n------\n\n42",
        "**Answer**\n\n---\n\n42",
        "Answer\n======\n\n42\n",
        "## Answer\n\n42\n\n---",
        "## Answer\n\nLet us count.\n\nThere are 42 of them.",
        "Answer: $$42$$ apples",
        "## Answer\n\nStep 1\n\n40 + 2 = 42",
        "## Answer\n\n- 40 apples\n- 2 pears\n\nTogether: 42",
        "**Final Answer**\n42.",
        "Answer: 42 km\xb2",
        "Answer: 42\xa0km",
        "The answer\n\n42",
        '```json\n{"answer": 42}\n```',
    ],
    ("42", "em f1 contains numeric"): [
        "**Answer:**\n\n$$42$$",
        "Answer:\n(42)\n",
    ],
    ("42", "exact em f1 contains numeric"): [
        "Answer: 42\n\n## Final Answer\n\nThere are 42 boxes.",
        "Answer:\n42\n- 3 from A\n- 39 from B",
        "Answer:\n42\nboxes of apples\nin total",
        "Answer: 42\n\n### Final Answer\n\n$$\n\\boxed{42}\n$$",
        "Answer: **42**\n\n**Explanation:** 40 + 2",
        "1. Count 40.\n2. Add 2.\n\n**Answer**: 42",
    ],
    ("42", "contains"): [
        "Answer: 42 (40 + 2)",
        "Answer:\n\n42 of 100",
    ],
    ("Paris", "exact em f1 contains"): [
        "Answer: Paris\n\n### Final Answer\n\nThe capital of France is Paris.",
        "Answer:\nParis\n- capital of France\n- largest city",
        "Answer:\n\nParis\n[1] Atlas\n[2] Wikipedia",
        "Answer:\nParis\n(high confidence)\n(from passage 3)",
        "Answer: Paris\n- capital of France\n- largest city",
        "Answer:\nParis\nConfidence: 90%\nSource: Atlas",
        "Answer:\nParis\nCapital of France\nLargest city there",
        "**Answer:** Paris\n\nParis is the capital.",
        "Answer:\n**Paris**\n* capital\n* large",
        "Answer:\nParis\n\n- capital\n- large",
        'Answer:\n"Paris"\n(see [1])',
        "Answer:\nParis\n1. It is the capital\n2. It is large",
        "Answer:\nParis\n\u2022 capital\n\u2022 large",
        "Answer:\nParis\n---\nLondon was a guess",
        'Answer: "Paris"\n\n> Paris is a city.',
    ],
    ("Paris", "em f1 contains"): [
        "Answer:\n> Paris",
        "Answer:\n- Paris\n\nReasons:\n- capital\n- large",
    ],
    ("B", "exact em f1 contains"): [
        "Answer:\nB\n- not A\n- not C",
        "Answer:\nB\nA is wrong\nC is wrong",
    ],
    ("B", "contains"): [
        "Answer:\nB) Paris",
        "**Answer**\n\nB",
        "Answer:\nB. Paris\nbecause it is",
    ],
    ("B", "em f1 contains"): [
        "Answer: (B)",
        "Answer:\n(B)\n(not A)\n(not C)",
    ],
    ("yes", "em f1 contains"): [
        "Answer:\nYes\n- A holds\n- B holds",
    ],
    ("yes", "exact em f1 contains"): [
        "Answer:\nyes\nsource 1\nsource 2",
    ],
    ("yes", "contains"): [
        "## Answer\n\nYes.",
    ],
    ("2020", "numeric"): [
        "Answer: 05/2020",
        "The season 2019/2020",
        "Answer: 1/5/2020",
        "In 5/2020.",
    ],
    ("1999", "numeric"): [
        "It was founded in 5/1999.",
    ],
    ("12", "numeric"): [
        "All 12/12 tests pass",
    ],
    ("12", "contains numeric"): [
        "12 of 12",
    ],
    ("3/4", "exact em f1 contains numeric"): [
        "3/4",
    ],
    ("3/4", "numeric"): [
        "\\frac{3}{4}",
        "$\\frac{3}{4}$",
    ],
    ("3.5", "exact em f1 contains numeric"): [
        "3.5",
    ],
    ("100000", "em f1 contains numeric"): [
        "100,000",
    ],
    ("6.02e23", "exact em f1 contains numeric"): [
        "6.02e23",
    ],
    ("answer: 5", "numeric"): [
        "answer: 5",
    ],
}
"""Answers that are right as people and models write them, by reference and the graders that see it."""


def task(reference: object) -> Task:
    return Task(id="t", input="Who was it?", reference=reference)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("reference", "words"), [(gold, words) for gold, found in WORDS.items() for words in found])
async def test_the_same_final_words_score_the_same_in_every_form(form: str, reference: str, words: str) -> None:
    for name, score in WORDS[reference][words].items():
        found = await load_grader(name).grade(task(reference), form.replace("{}", words), scope=SCOPE)
        assert found.score == pytest.approx(score), name


@pytest.mark.parametrize("name", sorted(set(NAMED) - {"numeric"}))
@pytest.mark.parametrize("answer", WORTHLESS.values(), ids=WORTHLESS)
async def test_a_text_that_does_not_decide_scores_nothing(name: str, answer: str) -> None:
    assert (await load_grader(name).grade(task("billing"), answer, scope=SCOPE)).score == 0


@pytest.mark.parametrize("answer", NUMBERS.values(), ids=NUMBERS)
async def test_numbers_that_do_not_decide_score_nothing(answer: str) -> None:
    assert (await load_grader("numeric").grade(task(5), answer, scope=SCOPE)).score == 0


@pytest.mark.parametrize(("answer", "number"), WRITTEN.items())
async def test_a_number_counts_however_it_is_written(answer: str, number: object) -> None:
    assert (await load_grader("numeric").grade(task(number), f"Answer: {answer}", scope=SCOPE)).score == 1


@pytest.mark.parametrize(("answer", "reference"), DECIDED.values(), ids=DECIDED)
async def test_a_sentence_with_the_answer_is_no_list(answer: str, reference: str) -> None:
    assert (await load_grader("contains").grade(task(reference), answer, scope=SCOPE)).score == 1


@pytest.mark.parametrize(
    ("reference", "answer", "names"),
    [(reference, answer, names) for (reference, names), answers in NATURAL.items() for answer in answers],
)
async def test_a_right_answer_scores_1_as_people_write_it(reference: str, answer: str, names: str) -> None:
    for name in names.split():
        assert (await load_grader(name).grade(task(reference), answer, scope=SCOPE)).score == 1, name


@pytest.mark.parametrize(
    "reference",
    [
        "Final answer",
        "The HTML tag is </think>",
        "Answer: 5",
        '{"answer": 5}',
        "## Answer\n\nAda\nByron",
        "Answer: Ada\nAnswer: Byron",
    ],
)
async def test_an_answer_that_equals_its_reference_scores_1(reference: str) -> None:
    for name in sorted(set(NAMED) - {"numeric"}):
        assert (await load_grader(name).grade(task(reference), reference, scope=SCOPE)).score == 1, name


@pytest.mark.parametrize("name", ["em", "f1", "contains", "numeric"])
@pytest.mark.parametrize(
    ("reference", "right", "wrong"),
    [
        ("2021-03-14", ["2021-3-14", "Answer: 2021/03/14"], ["2021-04-14", "2021-03-14 or 2021-03-15", "14"]),
        ("1/11/2020", ["Answer: 01/11/2020", "1.11.2020."], ["11/1/2020", "Answer: 2/11/2020", "2020"]),
    ],
)
async def test_a_date_is_compared_part_by_part(name: str, reference: str, right: list[str], wrong: list[str]) -> None:
    assert [compare(name, answer, reference) for answer in right] == [1.0] * len(right)
    assert not any(compare(name, answer, reference) == 1 for answer in wrong)


@pytest.mark.parametrize(
    ("name", "answer", "reference", "score"),
    [
        ("numeric", "| Step | Answer |\n|---|---|\n| 1 | 5 |\n| 2 | 7 |\n\nThe total is 12.", "12", 1),
        ("contains", "I do not need the <answer> tag.\nIt is Paris.", "Paris", 1),
        ("contains", "\u2192 Answer\nOf all the cities\nit is Paris.", "Paris", 1),
        ("numeric", "7", "On 2020-01-05 the value was 7", 1),
        ("numeric", "It was 5 on 2020-01-05", "On 2020-01-05 the value was 7", 0),
        ("exact", "x", "|x|", 0),
        ("exact", "\u2191 \u2192", "\u2192 \u2191 \u2192", 0),
    ],
)
def test_a_mark_of_a_form_inside_a_text_is_a_part_of_it(name: str, answer: str, reference: str, score: float) -> None:
    assert compare(name, answer, reference) == score


async def test_a_longer_text_earns_nothing_beside_a_labelled_line() -> None:
    answer = "It could be Ada. It could be Byron.\nAnswer: Babbage"
    assert (await load_grader("contains").grade(task(["Ada", "Byron"]), answer, scope=SCOPE)).score == 0


async def test_a_reference_of_several_lines_is_compared_with_all_that_is_behind_the_label() -> None:
    for answer in ("one\ntwo", "Answer: one\ntwo", "Counted.\nFinal Answer:\none\ntwo\n"):
        assert (await load_grader("exact").grade(task("one\ntwo"), answer, scope=SCOPE)).solved


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Lovelace the countess Byron", "2 of your 3 words are expected, 2 are missing"),
        ("Lovelace", "1 of your 1 word is expected, 3 are missing"),
        ("countess Augusta Ada Lovelace herself", "4 of your 5 words are expected, none is missing"),
        ("countess Augusta Ada", "3 of your 3 words are expected, 1 is missing"),
    ],
)
async def test_partly_right_is_said_in_numbers_of_words(answer: str, said: str) -> None:
    found = await load_grader("f1").grade(task("Augusta Ada, Countess Lovelace"), f"Answer: {answer}", scope=SCOPE)
    assert found.text.startswith(f"The answer is partly right: {said}. Measured by: word overlap")


async def test_words_on_an_answer_may_meet_the_reference_by_chance() -> None:
    found = await load_grader("f1").grade(task("expected words"), "expected", scope=SCOPE)
    assert "partly right" in found.text


async def test_lines_that_differ_are_said() -> None:
    found = await load_grader("em").grade(task("Ada"), "Answer: Ada\nAnswer: Byron", scope=SCOPE)
    assert found.text.startswith("The answer is not right: its lines that begin with 'Answer:' differ.")


@pytest.mark.parametrize("name", sorted(NAMED))
def test_every_measure_says_the_rule(name: str) -> None:
    assert MEASURES[name].endswith(BY_LABEL)


async def test_a_tag_in_a_labelled_answer_ends_no_thought() -> None:
    answer = "Answer: 42 (the tag </think> ends a thought)"
    assert (await load_grader("numeric").grade(task(42), answer, scope=SCOPE)).solved


@pytest.mark.parametrize(
    ("reference", "answer", "score"),
    [("a} + \\text{b", "\\text{a} + \\text{b}", 0), ("\\text{a} + \\text{b}", "\\boxed{\\text{a} + \\text{b}}", 1),
     ("- milk\n- eggs", "milk\n- eggs", 0), ("milk", "- milk", 1)],
)  # fmt: skip
async def test_what_stands_around_the_whole_answer_is_cut(reference: str, answer: str, score: float) -> None:
    assert (await load_grader("exact").grade(task(reference), answer, scope=SCOPE)).score == score


def test_a_text_in_a_box_is_the_same_vote_as_the_text_alone() -> None:
    assert to_ballot("\\boxed{\\text{Paris}}") == to_ballot("Answer: \\text{Paris}") == "paris"
    assert to_ballot("Answer: \u0664\u0661") == to_ballot("41")  # digits of another script


@pytest.mark.parametrize(
    "label",
    [
        "Antwort", "Endg\u00fcltige Antwort", "Endantwort", "R\u00e9ponse", "Respuesta final", "Resposta", "Risposta",
        "Antwoord", "Svar", "Vastaus", "Odpowied\u017a", "Odpov\u011b\u010f", "V\u00e1lasz", "Cevap", "Jawaban",
        "\u041e\u0442\u0432\u0435\u0442", "\u0412\u0456\u0434\u043f\u043e\u0432\u0456\u0434\u044c",
        "\u0391\u03c0\u03ac\u03bd\u03c4\u03b7\u03c3\u03b7", "\u7b54\u3048", "\u6700\u7d42\u56de\u7b54", "\u7b54\u6848",
        "\u6700\u7ec8\u7b54\u6848", "\ub2f5", "\ub2f5\ubcc0", "\ucd5c\uc885 \ub2f5\ubcc0",
        "\u0627\u0644\u0625\u062c\u0627\u0628\u0629", "\u0909\u0924\u094d\u0924\u0930",
    ],
)  # fmt: skip
def test_the_label_may_be_in_the_language_of_the_task(label: str) -> None:
    assert compare("exact", f"{EVIDENCE}\n{label}: Ada", "Ada") == 1
    assert compare("contains", f"Ada is out.\n{label}: Byron", "Ada") == 0
    assert compare("em", f"{label}: Byron\nAnswer: Ada", "Ada") == 0  # they differ
    assert to_ballot(f"So.\n{label}: Ada") == to_ballot(f"Then:\n{label.upper()}\uff1aada.") == "ada"


@pytest.mark.parametrize(
    "text",
    [
        "Antworten: Ada", "Keine Antwort: Ada", "\u7b54\u3048\u65b9: Ada", "Svarthamn: Ada",
        "\u0909\u0924\u094d\u0924\u0930\u0940: Ada", "\u0909\u0924\u094d\u0924\u0930\u094b\u0902: Ada",
    ],
)  # fmt: skip
def test_a_word_that_only_begins_like_a_label_is_none(text: str) -> None:
    assert find_graded_text(f"{EVIDENCE}\n{text}", "Ada") == f"{EVIDENCE}\n{text}"


def test_votes_are_counted_over_final_answers() -> None:
    samples = [f"{EVIDENCE}\nAnswer: Byron", "So\nAnswer: Ada.", "Then\n**Final Answer:** ada", '\nAnswer: "Ada"']
    samples += [f"{EVIDENCE}\n<think>Answer: Byron</think>Byron", "Byron"]
    assert choose_by_vote([*samples, "### Final Answer\nAda"]) == samples[1]


@pytest.mark.parametrize(
    "text",
    [
        "Ada, " * 20_000, "Ada or Ada " * 20_000, "Ada\n" * 20_000, "- " * 40_000 + "Ada", "Answer: " * 20_000 + "Ada",
        "Answer:\nAda\n" * 20_000, "Answer" + "-" * 80_000, "```\n" + " " * 80_000,
        "Answer:\n```" + " " * 80_000 + "x", "Answer:\n$$" + "\n" * 80_000, "Answer\n" + "---\n" * 20_000,
        "\\boxed{" * 10_000 + "Ada" + "}" * 10_000,
        "1 x " + "1" * 80_000,
    ],
)  # fmt: skip
def test_long_texts_delay_nothing(text: str) -> None:
    started = time.process_time()
    lists_options(text, "Ada")
    lists_options(text, "Ada Ada Ada Byron")
    find_graded_text(text, "Ada")
    compare("numeric", text, "1")
    assert time.process_time() - started < 15  # seconds where time grows with the length, minutes where with its square


@pytest.mark.parametrize("name", ["reasoned", "debater", "draft", "refine"])
def test_baselines_that_write_more_than_the_answer_label_it(name: str) -> None:
    prompt = files("selfwire.evals").joinpath("prompts", "baselines", f"{name}.md").read_text(encoding="utf-8")
    assert 'with one line that begins with "Answer:" and holds nothing but the answer.' in prompt


def test_a_single_agent_works_for_itself_and_is_promised_no_tools() -> None:
    prompt = files("selfwire.evals").joinpath("prompts", "baselines", "single.md").read_text(encoding="utf-8")
    for words in ("step by step for yourself", "if you hold any", "Reply with the answer alone"):
        assert words in prompt


@pytest.mark.parametrize("name", ["em", "f1", "contains"])
@pytest.mark.parametrize(("answer", "score"), [("[]", 1), ("Answer: `[]`", 1), ("{}", 0), ("", 0)])
def test_an_expected_text_without_words_is_compared_by_its_signs(name: str, answer: str, score: float) -> None:
    assert compare(name, answer, "[]") == score
