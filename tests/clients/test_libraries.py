"""The official JavaScript SDKs, LangChain and pydantic-ai: text, stream and a tool's round trip."""

from pathlib import Path

import pytest

from keys.core.dialect import Dialect
from tests.clients.running import CONCLUDED, json_of, run, with_tool
from tests.gateway import HELLO

pytestmark = pytest.mark.clients

SCRIPTS = Path(__file__).parent / "scripts"
OWN = {
    "chat": Dialect.OPENAI,
    "responses": Dialect.RESPONSES,
    "messages": Dialect.ANTHROPIC,
    "gemini": Dialect.GEMINI,
}
# Each client with its own dialect's upstream and with one of another's.
PAIRS = [
    *OWN.items(),
    ("chat", Dialect.ANTHROPIC),
    ("responses", Dialect.GEMINI),
    ("messages", Dialect.OPENAI),
    ("gemini", Dialect.RESPONSES),
]


@pytest.fixture(params=["node", "langchain", "pydantic"])
def ask(request, clients, gateway, tmp_path):
    """Ask through a library: (client, mode, world) → the text it made of the answer."""

    def asked(client, mode, world):
        env = {"URL": gateway.url, "KEY": world.secret, "OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": ""}
        if request.param == "node":
            return json_of(run(["node", str(SCRIPTS / "node.mjs"), client, mode], cwd=clients, env=env))["text"]
        program = [str(clients / "py" / "bin" / "python"), str(SCRIPTS / "frameworks.py"), request.param]
        return json_of(run([*program, client, mode], cwd=tmp_path, env=env))["text"]

    return asked


@pytest.mark.parametrize(("client", "dialect"), PAIRS, ids=str)
@pytest.mark.parametrize("mode", ["text", "stream", "tool"])
def test_it_works(gateway, up, ask, client, dialect, mode):
    world = gateway.serving(up, "k-1", upstream={"dialect": dialect.value})
    if mode == "tool":
        up.default(with_tool(dialect, lambda name, _schema: {"city": "Bern"} if name == "weather" else None))
    assert ask(client, mode, world) == (CONCLUDED if mode == "tool" else HELLO)
    assert len(up.keys()) == (2 if mode == "tool" else 1)
    assert {seen.key for seen in up.requests} == {"k-1"}
    assert all(world.secret.encode() not in seen.body for seen in up.requests)
