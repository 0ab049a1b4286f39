"""The demo's simulated upstreams, run as the programs that they are and read with OpenAI's SDK."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx
import openai
import pytest

HELLO: Any = [{"role": "user", "content": [{"type": "text", "text": "What  is\nup?"}]}]


@contextmanager
def running(mode: str, log: IO[str] | None = None) -> Iterator[openai.OpenAI]:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port = trial.getsockname()[1]
    argv = [sys.executable, "-m", "config.demo_upstream", "--port", str(port), "--mode", mode]
    program = subprocess.Popen(argv, stderr=log)
    try:
        wait_for(port)
        with openai.OpenAI(api_key="any", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0) as client:
            yield client
    finally:
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture(scope="module")
def good() -> Iterator[openai.OpenAI]:
    with running("good") as client:
        yield client


@pytest.fixture(scope="module")
def limited() -> Iterator[openai.OpenAI]:
    with running("limited") as client:
        yield client


def test_both_list_their_models(good: openai.OpenAI, limited: openai.OpenAI) -> None:
    for client in (good, limited):
        assert [model.id for model in client.models.list()] == ["demo-chat", "demo-chat-mini"]
        assert client.models.retrieve("demo-chat").id == "demo-chat"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("demo-other")


def test_the_limited_one_says_when_to_come_back(limited: openai.OpenAI) -> None:
    with pytest.raises(openai.RateLimitError, match="Rate limit reached") as caught:
        limited.chat.completions.create(model="demo-chat", messages=HELLO)
    assert caught.value.code == "rate_limit_exceeded"
    assert caught.value.response.headers["retry-after"] == "20"


def test_the_good_one_answers_and_counts(good: openai.OpenAI) -> None:
    got = good.chat.completions.create(model="demo-chat", messages=HELLO)
    text = got.choices[0].message.content or ""
    assert "You asked demo-chat: “What is up?”" in text
    assert got.usage is not None
    assert got.usage.completion_tokens == -(-len(text.encode()) // 4)
    assert got.usage.total_tokens == got.usage.prompt_tokens + got.usage.completion_tokens


@pytest.mark.parametrize("asked", [True, False])
def test_a_stream_is_the_same_answer_word_by_word(good: openai.OpenAI, asked: bool) -> None:
    whole = good.chat.completions.create(model="demo-chat", messages=HELLO)
    chunks = list(
        good.chat.completions.create(
            model="demo-chat", messages=HELLO, stream=True, stream_options={"include_usage": asked}
        )
    )
    text = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(text) == whole.choices[0].message.content
    assert len(text) > 20
    assert (chunks[-1].usage == whole.usage) is asked


@pytest.mark.parametrize("body", [b"{", b"[]"])
def test_a_body_that_is_no_object_is_refused(good: openai.OpenAI, body: bytes) -> None:
    answer = httpx.post(f"{good.base_url}chat/completions", content=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    ("messages", "echo"),
    [
        ("none", "“”"),
        ([], "“”"),
        ([{"role": "user", "content": None}], "“”"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "“a”"),
        ([{"role": "user", "content": "x" * 121}], f"“{'x' * 120}…”"),
    ],
)
def test_what_is_echoed(good: openai.OpenAI, messages: object, echo: str) -> None:
    answer = httpx.post(f"{good.base_url}chat/completions", json={"messages": messages})
    assert echo in answer.json()["choices"][0]["message"]["content"]


def test_a_client_that_leaves_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as written, running("good", written) as client:
        with client.chat.completions.create(model="demo-chat", messages=HELLO, stream=True) as stream:
            assert next(iter(stream)).id
        time.sleep(0.5)  # it goes on for some words, finds nobody there and gives up
    assert log.read_text() == ""
