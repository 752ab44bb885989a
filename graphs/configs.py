"""Configs of methods and baselines from fields by name."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from selfwire.core.errors import ConfigError, format_validation_error
from selfwire.core.values import FrozenModel, to_plain_json

UNKNOWN = "extra_forbidden"
"""Pydantic's name for the error of a field that does not exist."""

Config = TypeVar("Config", bound=FrozenModel)


def parse_config(name: str, schema: type[Config], config: Mapping[str, Any]) -> Config:
    """A config from its fields by name.

    Raises:
        ConfigError: a field is unknown or out of bounds.
    """
    try:
        return schema.model_validate(to_plain_json(config))
    except ValidationError as error:
        faults = error.errors()
        reasons = "; ".join(map(format_validation_error, faults))
        fields = f"; fields are {', '.join(_names(schema))}" if any(one["type"] == UNKNOWN for one in faults) else ""
        raise ConfigError(f"config of {name}: {reasons}{fields}") from None


def _names(schema: type[BaseModel], within: str = "") -> Iterator[str]:
    for name, field in schema.model_fields.items():
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            yield from _names(nested, f"{within}{name}.")
        else:
            yield within + name
