"""How calls of models are made: times, retries and limits."""

from pydantic import Field

from selfwire.core.values import FrozenModel
from selfwire.runtime.structured_modes import Structured


class CallSettings(FrozenModel):
    """How calls are made.

    Args:
        timeout: seconds until a request is given up, > 0.
        retries: further attempts after a transient error, >= 0.
        backoff: seconds before the first retry; doubles each time, with jitter.
        patience: longest pause in seconds that a provider may ask for.
        concurrency: requests at the same time per provider, in this process.
        together: whether that is the limit of all processes that share a budget, and not of each.
        requests_per_minute: that start, per provider; None for no limit.
        tokens_per_minute: of requests and replies, per provider; None for no limit. A call counts as the most that it
            can take until it ends; one above the limit is sent when no other counts any more.
        max_input_tokens: longer requests are truncated; None for no limit.
        probe: whether the provider is asked for one word when a call has failed for good: if it does not answer
            that either, it is an outage and not the fault of this request.
        structured: how objects are asked for: "native" by a JSON schema as response format, or the provider's own
            way, "tool" by a forced tool call, "json" by a response format for any JSON object, with the schema in
            words, "prompt" in words alone. "auto" is the first of these that the server takes.
    """

    timeout: float = Field(default=120.0, gt=0)
    retries: int = Field(default=4, ge=0)
    backoff: float = Field(default=0.5, ge=0)
    patience: float = Field(default=120.0, ge=0)
    concurrency: int = Field(default=32, ge=1)
    together: bool = True
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    max_input_tokens: int | None = Field(default=None, ge=1)
    probe: bool = False
    structured: Structured = "auto"
