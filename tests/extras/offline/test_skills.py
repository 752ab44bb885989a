import pytest

from selfwire.evals.instructions import paraphrases
from selfwire.extras.offline.hiva import HAND_OVERS
from selfwire.extras.offline.skills import PLACES, Family, Skill, find_instructed_skills
from selfwire.extras.offline.vocabulary import (
    FAMILIES,
    USELESS,
    VOCABULARY,
    active_skills,
    family_of,
    find_skills,
)


def test_a_plain_prompt_leaves_both_places_to_look_up_and_read() -> None:
    assert active_skills("You are a helpful assistant. Answer the task.") == ("look up", "read")


def test_one_instruction_leaves_one_place_to_look_up() -> None:
    assert active_skills("Split the question into two.") == ("split", "look up")


def test_an_instructed_filler_is_not_placed_twice() -> None:
    assert active_skills("Search for what is not known yet.") == ("look up", "read")
    assert active_skills("Read the passages.") == ("read", "look up")


def test_a_third_skill_is_ignored_in_order_of_appearance() -> None:
    prompt = "Count the names. Compare the two values. Split the question."
    assert active_skills(prompt) == ("count", "compare")
    assert find_skills(prompt) == ("count", "compare", "split")


def test_a_negated_instruction_switches_nothing_on() -> None:
    assert active_skills("Do not split the question; never compare the values.") == ("look up", "read")


def test_names_in_the_vocabulary_are_unique_and_every_skill_is_worded_five_times() -> None:
    names = [skill.name for skill in VOCABULARY]
    assert len(names) == len(set(names))
    assert paraphrases().keys() == set(names)
    assert all(len(set(texts)) >= 5 for texts in paraphrases().values())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_has_at_least_as_many_useless_skills_as_useful_ones(family: Family) -> None:
    useless = [skill for skill in VOCABULARY if skill.name not in family.abilities]
    assert len(useless) >= len(family.abilities)
    assert USELESS <= {skill.name for skill in useless}


def test_four_in_five_paraphrases_switch_their_skill_on() -> None:
    for name, texts in paraphrases().items():
        hits = [
            text
            for text in texts
            if name in active_skills(text)[:1] or name in find_instructed_skills(text, VOCABULARY)
        ]
        assert len(hits) >= 0.8 * len(texts), (name, sorted(set(texts) - set(hits)))


def test_few_paraphrases_switch_a_foreign_skill_on() -> None:
    texts = [(name, text) for name, found in paraphrases().items() for text in found]
    wrong = [(name, text) for name, text in texts if set(find_instructed_skills(text, VOCABULARY)) - {name}]
    assert len(wrong) <= 0.1 * len(texts), wrong


def test_places_are_two() -> None:
    skills = [Skill(name=letter, patterns=(letter * 3,)) for letter in "abc"]
    assert len(find_instructed_skills("aaa bbb ccc", skills)) == 3
    assert PLACES == len(active_skills("Brainstorm. Debate. Summarise."))


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("Who founded Brol Works?\nEnd with a line.", "archive"),
        ("In which city was the founder of Brol Works born?", "archive"),
        ("Which was founded earlier, Brol Works or Tas Press?", "archive"),
        ("Write a poem about the sea.", None),
    ],
)
def test_families_are_recognised_by_the_form_of_the_text(task: str, name: str | None) -> None:
    family = family_of(task)
    assert (family.name if family else None) == name


@pytest.mark.parametrize("text", HAND_OVERS)
def test_a_hand_over_alone_asks_for_no_skill(text: str) -> None:
    assert find_skills(text) == ()
