"""A model of your own: any LangChain chat model, here one that keeps a log of what another one is asked.

`_generate` is the place for a gateway of yours; the rest of selfwire sees a chat model like any other.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable
from own_tool import look_up

from selfwire.graphs import hiva
from selfwire.models.providers import make_chat_model


class LoggingModel(BaseChatModel):
    """Passes requests on, and logs how long they were."""

    inner: BaseChatModel
    log: list[int]

    @property
    def _llm_type(self) -> str:
        return "logging"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.log.append(sum(len(message.text) for message in messages))
        return self.inner._generate(messages, stop, run_manager, **kwargs)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Lets agents call tools; a model without it works for teams without tools."""
        return self.bind(tools=tools, **kwargs)


def main() -> None:
    """Ask a team that runs on this model."""
    model = LoggingModel(inner=make_chat_model("offline"), log=[])  # or ChatOpenAI(...), ChatOllama(...)
    team = hiva.build(model, tools=[look_up]).compile()
    result = team.invoke({"question": "How many years does the warranty on frames last?"})
    print(result["answer"])
    print(f"{len(model.log)} requests of {sum(model.log):,} characters")


if __name__ == "__main__":
    main()
