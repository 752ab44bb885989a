"""Errands: wordings of one situation each, and tasks that do not say who is right."""

from selfwire.evals.benchmarks.errands import POOL, RELAY, RIGHT, generate_errands, load_wordings

IDS = [agent.id for agent in POOL]


def test_a_sentence_words_one_situation() -> None:
    situations = load_wordings().situations
    known = {wording for situation in situations for wording in situation.known}
    assert len(known) == sum(len(situation.known) for situation in situations)
    assert [situation.helper for situation in situations] == [IDS[index] for index in RIGHT]
    assert set(RIGHT) == set(range(len(IDS))) - {RELAY}


def test_tasks_are_the_same_for_the_same_seed_and_say_nothing_of_the_truth() -> None:
    one, two, other = (generate_errands(20, length=3, seed=seed) for seed in (1, 1, 2))
    assert one == two != other
    for task in one:
        said = (*task.texts, task.name, task.complaint)
        assert not any(name in text for text in said for name in IDS if name != "relay")
