"""Prices of models: list prices, which users can override. An unknown price is None, never 0."""

import functools
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Self

from pydantic import Field, TypeAdapter, ValidationError

from selfwire.core.errors import ConfigError, format_validation_error
from selfwire.core.values import FrozenModel

PER_TOKENS = 1_000_000


class Price(FrozenModel):
    """US dollars per million tokens sent (`input`) and received (`output`)."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)


_TABLE: TypeAdapter[dict[str, Price]] = TypeAdapter(dict[str, Price])


class Prices(FrozenModel):
    """Prices by "provider:model"; `offline` costs nothing.

    List prices change: the shipped prices are estimates for planning; the provider's bill counts.
    """

    table: Mapping[str, Price]

    @classmethod
    def load(cls, overrides: Path | None = None) -> Self:
        """Load the shipped list prices, overridden by a JSON file; raises ConfigError if the file has no prices."""
        if overrides is None:
            return cls(table=_load_shipped())
        try:
            more = _TABLE.validate_json(overrides.read_bytes())
        except (OSError, ValidationError) as error:
            form = '{"openai:my-model": {"input": 0.5, "output": 1.5}} in dollars per million tokens'
            raise ConfigError(f"prices {overrides} cannot be used: {_describe_fault(error)}; write {form}") from None
        return cls(table={**_load_shipped(), **more})

    def cost(self, model: str, input_tokens: int, output_tokens: int) -> float | None:
        """Compute the dollars for a model's tokens; None if its price is not known."""
        if model == "offline":
            return 0.0
        price = self.table.get(model)
        if price is None:
            return None
        return (price.input * input_tokens + price.output * output_tokens) / PER_TOKENS

    def require(self, model: str) -> None:
        """Check that the price of a model is known.

        Raises:
            ConfigError: the price is not known, so a budget in dollars cannot apply.
        """
        if self.cost(model, 0, 0) is None:
            raise ConfigError(
                f"a budget in dollars cannot bind: the price of {model} is not known; give it with --prices FILE or in "
                "prices.json in the home folder, or set --budget-tokens or --budget-calls in its place"
            )


def _describe_fault(error: OSError | ValidationError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return format_validation_error(error.errors()[0])


@functools.cache
def _load_shipped() -> dict[str, Price]:
    return _TABLE.validate_python(json.loads((files("selfwire.models") / "prices.json").read_text("utf-8")))
