from bench.score_weights import TERMS, fit_planted, measure


def test_more_runs_find_the_planted_weights_and_a_narrow_term_is_found_last() -> None:
    found = [row.value for row in measure(counts=(100, 1000), draws=6)]
    few, many = found[: len(TERMS)], found[len(TERMS) :]
    assert sum(few) < sum(many)
    assert many[0] > 0.7
    assert many[1] > many[2]
    assert fit_planted("eta", 100, 0) != fit_planted("eta", 100, 1)
