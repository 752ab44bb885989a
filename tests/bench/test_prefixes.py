"""The share of prompt tokens that a prompt cache can serve, for each method on questions that quote passages."""

import asyncio

import pytest

from bench.prefixes import LEAST, STEP, compute_share, count_cached, make_tasks, match_prefixes, record_requests
from selfwire.core.plugins import own_methods

LEAST_SHARES = {"hiva": 0.72, "hera": 0.69, "tacomas": 0.73, "dytopo": 0.47, "evomas": 0.74}
"""About 0.05 below what is measured."""
QUESTIONS = {"hiva": 3, "dytopo": 3, "evomas": 6}
"""Number of questions, where it is not one: EvoMAS and DyTopo share less of a question that ends after one stage, and
HiVA of one that its last team answers with few agents."""


def test_a_prefix_counts_from_its_least_length_on_and_in_whole_steps() -> None:
    task = "x" * 4 * (LEAST + STEP + 1)
    texts = [task, task[:-4], task[: 4 * LEAST - 1], f"{task}y", f"y{task}"]
    assert count_cached(texts, range(5)) == [0, LEAST + STEP, 0, LEAST + STEP, 0]


def test_only_what_was_answered_before_a_request_was_sent_is_cached() -> None:
    """DyTopo's workers ask at once, so the first round shares nothing, and its manager shares with all of them."""
    assert count_cached(["x" * 4 * LEAST] * 4, [0, 0, 1, 2]) == [0, 0, LEAST, LEAST]
    sent = asyncio.run(record_requests("dytopo", asyncio.run(make_tasks(1))))
    matched = match_prefixes(sent)
    workers = [request.cached for request in matched if request.sent.kind.startswith("Turn")]
    assert workers == [0] * 4
    assert [request.cached > LEAST for request in matched if request.sent.kind == "Halting"] == [True]


@pytest.mark.parametrize("method", own_methods())
def test_most_prompt_tokens_of_a_question_stand_in_a_shared_prefix(method: str) -> None:
    sent = asyncio.run(record_requests(method, asyncio.run(make_tasks(QUESTIONS.get(method, 1)))))
    assert compute_share(match_prefixes(sent)) >= LEAST_SHARES[method]
