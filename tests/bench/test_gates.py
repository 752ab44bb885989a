from bench import gates


def test_a_proof_accepts_clear_gains_and_neither_harm_nor_nothing() -> None:
    found = {
        effect: gates.measure_gate(effect, "better", gates.decide_by_proof, runs=8)[1].value
        for effect in ("no effect: 25 % won, 25 % lost", "harm: 20 % won, 30 % lost", "gain: 30 % won, 5 % lost")
    }
    assert [*found.values()][:2] == [0.0, 0.0]
    assert found["gain: 30 % won, 5 % lost"] > 90
    usual = gates.measure_gate("no effect: 25 % won, 25 % lost", "mean", gates.decide_by_mean, runs=20)
    assert usual[1].value > 40
