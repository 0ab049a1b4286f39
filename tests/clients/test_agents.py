"""Coding agents on the command line: Claude Code, Codex and Gemini CLI, answering, streaming and using a tool.

Each runs against an upstream of its own dialect and against one of another, with a file to be read by its own tool.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from billing.models import RequestRecord
from keys.core.dialect import Dialect
from tests.clients.running import CONCLUDED, SECRET_WORD, run, with_tool
from tests.fake_upstream import status
from tests.gateway import HELLO, outcomes

pytestmark = pytest.mark.clients

PROMPT = "What does note.txt say?"


class Agent:
    """`argv` of one prompt, `env`, and what its tools are called with."""

    dialect: Dialect

    def __init__(self, bin_folder: Path, url: str, key: str) -> None:
        self.bin, self.url, self.key = bin_folder, url, key

    def argv(self, prompt: str) -> list[str]:
        raise NotImplementedError

    def env(self) -> Mapping[str, str]:
        raise NotImplementedError

    def reads(self, folder: Path, name: str, schema: Any) -> Mapping[str, Any] | None:
        """Arguments that make the tool of this name read note.txt; None for another tool."""
        raise NotImplementedError

    def prepare(self, folder: Path) -> None:
        """Write what the client wants to find in its home."""


class ClaudeCode(Agent):
    dialect = Dialect.ANTHROPIC

    def argv(self, prompt: str) -> list[str]:
        return [str(self.bin / "claude"), "-p", prompt, "--model", "claude-any", "--allowedTools", "Read"]

    def env(self) -> Mapping[str, str]:
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_AUTH_TOKEN": self.key}

    def reads(self, folder: Path, name: str, _schema: Any) -> Mapping[str, Any] | None:
        return {"file_path": str(folder / "note.txt")} if name == "Read" else None


class Codex(Agent):
    dialect = Dialect.RESPONSES

    def argv(self, prompt: str) -> list[str]:
        provider = f'{{name="pm", base_url="{self.url}/v1", env_key="PM_KEY", wire_api="responses"}}'
        return [
            str(self.bin / "codex"), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
            "-c", f"model_providers.pm={provider}", "-c", 'model_provider="pm"', "-m", "any-model", prompt,
        ]  # fmt: skip

    def env(self) -> Mapping[str, str]:
        return {"PM_KEY": self.key}

    def reads(self, folder: Path, name: str, schema: Any) -> Mapping[str, Any] | None:
        path = str(folder / "note.txt")
        given = {"shell": {"command": ["cat", path]}, "shell_command": {"command": f"cat {path}"}}
        return {**given, "exec_command": {"cmd": f"cat {path}"}}.get(name)


class GeminiCli(Agent):
    dialect = Dialect.GEMINI

    def argv(self, prompt: str) -> list[str]:
        return [str(self.bin / "gemini"), "--yolo", "-m", "gemini-any", "-p", prompt]

    def env(self) -> Mapping[str, str]:
        return {
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GEMINI_API_KEY": self.key,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }

    def prepare(self, folder: Path) -> None:
        home = folder / "home" / ".gemini"
        home.mkdir(parents=True)
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
        }
        (home / "settings.json").write_text(json.dumps(settings))

    def reads(self, folder: Path, name: str, schema: Any) -> Mapping[str, Any] | None:
        if name != "read_file":
            return None
        field = next(one for one in schema["properties"] if one in ("file_path", "absolute_path", "path"))
        return {field: str(folder / "note.txt")}


AGENTS: list[type[Agent]] = [ClaudeCode, Codex, GeminiCli]
OTHERS = {ClaudeCode: Dialect.OPENAI, Codex: Dialect.ANTHROPIC, GeminiCli: Dialect.OPENAI}
PAIRS = [*((kind, kind.dialect) for kind in AGENTS), *OTHERS.items()]


@pytest.fixture(params=PAIRS, ids=[f"{kind.__name__}-at-{dialect}" for kind, dialect in PAIRS])
def pair(request):
    return request.param


@pytest.fixture
def world(gateway, up, pair):
    return gateway.serving(up, "k-1", "k-2", upstream={"dialect": pair[1].value})


@pytest.fixture
def agent(clients, gateway, world, pair, tmp_path):
    made = pair[0](clients / "node_modules" / ".bin", gateway.url, world.secret)
    made.prepare(tmp_path)
    return made


def ask(agent, folder, prompt):
    return run(agent.argv(prompt), cwd=folder, env=agent.env())


def test_it_answers(agent, up, tmp_path):
    assert HELLO in ask(agent, tmp_path, "Say hello.")
    assert up.keys()
    assert b"stream" in up.last.body or "stream" in up.last.path  # all of them stream


def test_it_uses_its_tool(agent, up, pair, world, tmp_path):
    (tmp_path / "note.txt").write_text(f"The word is {SECRET_WORD}.\n")
    up.default(with_tool(pair[1], lambda name, schema: agent.reads(tmp_path, name, schema)))
    assert CONCLUDED in ask(agent, tmp_path, PROMPT)
    turns = [seen for seen in up.requests if SECRET_WORD.encode() in seen.body]
    assert len(turns) == 1
    for seen in up.requests:
        assert world.secret.encode() not in seen.body
        assert world.secret not in str(seen.headers)


def test_it_does_not_notice_a_failing_key(agent, up, gateway, world, tmp_path):
    up.default(status(429, retry_after=60), key="k-1")
    assert HELLO in ask(agent, tmp_path, "Say hello.")
    assert outcomes(RequestRecord.objects.filter(tenant=world.tenant).order_by("pk")[0]) == [
        ("k1", "rate_limited"),
        ("k2", "served"),
    ]
