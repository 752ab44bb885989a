from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError
from selfwire.models.budget import Prices


def test_a_known_model_costs_by_tokens_sent_and_received() -> None:
    assert Prices.load().cost("openai:gpt-4o-mini", 1_000_000, 500_000) == pytest.approx(0.15 + 0.30)


def test_offline_is_free_and_an_unknown_price_is_none_not_zero() -> None:
    assert Prices.load().cost("offline", 10, 10) == 0
    assert Prices.load().cost("openai:something-new", 0, 0) is None


def test_own_prices_lie_over_the_shipped_ones(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text('{"openai:gpt-4o-mini": {"input": 1, "output": 0}, "vllm:own": {"input": 0, "output": 0}}')
    prices = Prices.load(file)
    assert prices.cost("openai:gpt-4o-mini", 1_000_000, 1) == 1
    assert prices.cost("vllm:own", 5, 5) == 0
    assert prices.cost("openai:gpt-4o", 1, 0) is not None


@pytest.mark.parametrize(
    "text", ["not json", '{"m": {"input": -1, "output": 0}}', '{"m": {"input": 1e308, "output": 0}}', '{"m": 3}', None]
)
def test_a_file_that_says_no_prices_is_refused(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "prices.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=r"prices.json cannot be used"):
        Prices.load(file)
