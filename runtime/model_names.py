"""Names of models."""

from selfwire.core.errors import ConfigError


def is_offline(name: str) -> bool:
    """Whether a name means the offline model, with any of its voices: `offline`, `offline:system`, `offline:user`."""
    return name.partition(":")[0] == "offline"


def refuse_unknown_model(name: str) -> None:
    """Refuse a name that means no model.

    Raises:
        ConfigError: it is neither the offline model's nor a provider's and a model's.
    """
    provider, colon, model = name.partition(":")
    if not is_offline(name) and not (provider and colon and model):
        raise ConfigError(f"unknown model {name!r}; write 'offline' or 'provider:model', such as openai:gpt-4o-mini")
