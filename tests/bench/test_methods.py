"""The benches are found by their titles; those of single methods run, and give their figures."""

import pytest

from bench import dytopo
from bench.__main__ import main


def test_rounds_are_measured_beside_their_aim() -> None:
    [row] = dytopo.measure(workers=4, rounds=1)
    assert row.bound == 1.15
    assert row.value > 0


def test_titles_are_listed_and_a_word_that_is_in_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--list"])
    titles = capsys.readouterr().out.splitlines()
    assert {"an evaluation", "what is stored, what is imported"} < set(titles)
    main(["--list", "evomas", "STORED"])
    assert capsys.readouterr().out.splitlines() == [one for one in titles if "EvoMAS" in one or "stored" in one]
    with pytest.raises(SystemExit):
        main(["nothing of the kind"])
    assert not [one for one in titles if "peers" in one]  # it takes minutes, so it must be named
    main(["--list", "peers"])
    assert capsys.readouterr().out.startswith("peers: CPU per call")
    with pytest.raises(SystemExit):
        main(["team", "--keep", "rows.jsonl"])
    assert "--keep writes one table" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["nothing of the kind"])
    assert "no title has any of nothing of the kind; --list prints all titles" in capsys.readouterr().err


def test_help_measures_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "only the tables whose title has one of these words" in capsys.readouterr().out
