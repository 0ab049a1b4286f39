"""Every client × every upstream dialect. A test that names `speaker` and `dialect` runs for each pair.

`feature("…")` marks what a test proves; see tests/proxy/dialects/table.py.
"""

from collections.abc import Callable
from typing import Any

import pytest

from keys.core.dialect import Dialect
from tests.factories import World
from tests.fake_upstream import FakeUpstream
from tests.gateway import Gateway
from tests.proxy.dialects.anthropic_speaker import Messages
from tests.proxy.dialects.gemini_speaker import Gemini
from tests.proxy.dialects.openai_speakers import Chat, Responses
from tests.proxy.dialects.speaking import Speaker

SPEAKERS: dict[str, Speaker] = {
    "chat": Chat(),
    "responses": Responses(),
    "messages": Messages(),
    "gemini": Gemini(),
}

Serve = Callable[..., World]


@pytest.fixture(params=SPEAKERS.values(), ids=SPEAKERS.keys())
def speaker(request: pytest.FixtureRequest) -> Speaker:
    found: Speaker = request.param
    return found


@pytest.fixture(params=list(Dialect), ids=[f"at-{dialect.value}" for dialect in Dialect])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    return found


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


@pytest.fixture
def serve(gateway: Gateway, up: FakeUpstream, dialect: Dialect) -> Serve:
    """Make a world whose upstreams speak the dialect; keys are k-1, k-2 …"""

    def made(keys: int = 1, **options: Any) -> World:
        upstream = {"dialect": dialect.value, **options.pop("upstream", {})}
        return gateway.serving(up, *(f"k-{n}" for n in range(1, keys + 1)), upstream=upstream, **options)

    return made
