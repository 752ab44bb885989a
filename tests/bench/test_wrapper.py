from bench import wrapper


def test_the_bench_compares_wrapped_with_bare_calls_and_journals_the_wrapped_ones() -> None:
    rows = {row.what: row for row in wrapper.measure_wrapper(rounds=1)}
    own = rows["wrapper's own CPU per call"].value
    bare = rows["bare client: CPU per call"].value
    assert own == rows["wrapper, journal in a file: CPU per call"].value - bare
    assert 0 < bare
    assert 400 < rows["journal, per call"].value < 4000  # the reply is 420 characters
