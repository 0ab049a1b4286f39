"""One question through LangChain or pydantic-ai: frameworks.py CLIENT text|stream|tool. Prints {"text": …}.

Runs in the clients' own environment, not in the project's.
"""

import asyncio
import json
import os
import sys
from typing import Any

URL, KEY = os.environ["URL"], os.environ["KEY"]
MODEL = "any-model"
QUESTION = "What is the weather in Bern?"


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"pineapple weather in {city}"


def langchain(client: str, mode: str) -> str:
    from langchain_core.messages import HumanMessage, ToolMessage  # noqa: PLC0415  # house: one of them is installed

    chat = langchain_model(client)
    if mode == "stream":
        return "".join(chunk.text for chunk in chat.stream(QUESTION))
    if mode == "text":
        return str(chat.invoke(QUESTION).text)
    history: list[Any] = [HumanMessage(QUESTION)]
    bound = chat.bind_tools([weather])
    called = bound.invoke(history)
    history.append(called)
    history += [ToolMessage(weather(**call["args"]), tool_call_id=call["id"]) for call in called.tool_calls]
    return str(bound.invoke(history).text)


def langchain_model(client: str) -> Any:
    match client:
        case "chat" | "responses":
            from langchain_openai import ChatOpenAI  # noqa: PLC0415  # house: one of them is installed

            return ChatOpenAI(
                model=MODEL,
                base_url=f"{URL}/v1",
                api_key=KEY,
                max_retries=0,
                stream_usage=True,
                use_responses_api=client == "responses",
            )
        case "messages":
            from langchain_anthropic import ChatAnthropic  # noqa: PLC0415  # house: one of them is installed

            return ChatAnthropic(model=MODEL, base_url=URL, api_key=KEY, max_retries=0)
        case _:
            from langchain_google_genai import ChatGoogleGenerativeAI  # noqa: PLC0415  # house: one of them is installed

            return ChatGoogleGenerativeAI(model=MODEL, base_url=URL, api_key=KEY, max_retries=0)


def pydantic(client: str, mode: str) -> str:
    from pydantic_ai import Agent  # noqa: PLC0415  # house: one of them is installed

    agent = Agent(pydantic_model(client), tools=[weather] if mode == "tool" else [])
    if mode != "stream":
        return str(agent.run_sync(QUESTION).output)

    async def gathered() -> str:
        async with agent.run_stream(QUESTION) as result:
            return "".join([text async for text in result.stream_text(delta=True)])

    return asyncio.run(gathered())


def pydantic_model(client: str) -> Any:
    match client:
        case "chat" | "responses":
            from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: PLC0415  # house: one of them is installed
            from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415  # house: one of them is installed

            made = OpenAIChatModel if client == "chat" else OpenAIResponsesModel
            return made(MODEL, provider=OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY))
        case "messages":
            from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415  # house: one of them is installed
            from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415  # house: one of them is installed

            return AnthropicModel(MODEL, provider=AnthropicProvider(base_url=URL, api_key=KEY))
        case _:
            from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415  # house: one of them is installed
            from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415  # house: one of them is installed

            return GoogleModel(MODEL, provider=GoogleProvider(base_url=URL, api_key=KEY))


if __name__ == "__main__":
    framework, asked, how = sys.argv[1:]
    print(json.dumps({"text": {"langchain": langchain, "pydantic": pydantic}[framework](asked, how)}))  # noqa: T201
