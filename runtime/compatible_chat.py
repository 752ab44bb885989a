"""The chat model of servers that speak OpenAI's protocol but are not OpenAI's."""

from typing import Any

from langchain_openai import ChatOpenAI


class CompatibleChatOpenAI(ChatOpenAI):
    """Limits replies by `max_tokens`: llama.cpp's Python server, among others, ignores `max_completion_tokens`."""

    def _get_request_payload(self, *messages: Any, **options: Any) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(*messages, **options)
        if "max_completion_tokens" in payload:
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        return payload
