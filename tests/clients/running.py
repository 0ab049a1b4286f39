"""Start an outside client, and play the model that it talks to."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keys.core.dialect import Dialect
from tests.fake.connection import Recorded
from tests.fake_upstream import Behaviour, answer, tool_call
from tests.proxy.dialects.upstreams import Seen

TIMEOUT_S = 120
SECRET_WORD = "pineapple"  # what the tool finds; no prompt has it
CONCLUDED = f"The word is {SECRET_WORD}."
QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "NO_COLOR": "1",
    "CI": "1",
}


def run(argv: list[str], *, cwd: Path, env: Mapping[str, str]) -> str:
    """Run to the end and return what it wrote; AssertionError, with all of it, when it failed."""
    home = cwd / "home"
    home.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**kept, **QUIET, "HOME": str(home), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{argv[0]} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


Arguments = Callable[[str, Any], Mapping[str, Any] | None]


def with_tool(dialect: Dialect, arguments: Arguments) -> Callable[[Recorded], Behaviour]:
    """A model that uses a tool once and then concludes.

    `arguments` gets a tool's name and schema, and returns what to call it with, or None for another tool.
    """

    def react(recorded: Recorded) -> Behaviour:
        if SECRET_WORD.encode() in recorded.body:
            return answer(CONCLUDED)
        for name, schema in Seen(recorded, dialect).tools:
            if (given := arguments(name, schema)) is not None:
                return answer(tool_call(name, given, call_id="call_1"))
        return answer("A title.")

    return react


def json_of(out: str) -> Any:
    return json.loads(out.strip().splitlines()[-1])
