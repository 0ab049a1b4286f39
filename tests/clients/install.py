"""`python -m tests.clients.install FOLDER`: the outside clients, in the versions that the tests were written for."""

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

NODE = {
    "openai": "6.49.0",
    "@anthropic-ai/sdk": "1.14.0",
    "@google/genai": "2.32.0",
    "@anthropic-ai/claude-code": "2.1.197",
    "@openai/codex": "0.171.0",
    "@google/gemini-cli": "0.61.0",
}
PYTHON = [
    "langchain-openai==1.7.4",
    "langchain-anthropic==1.7.10",
    "langchain-google-genai==4.4.3",
    "pydantic-ai-slim[openai,anthropic,google]==2.68.0",
]


def install(folder: Path) -> None:
    """Do what is not done yet."""
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / "package.json"
    wanted = json.dumps({"private": True, "dependencies": NODE})
    if not package.exists() or package.read_text() != wanted or not (folder / "node_modules").exists():
        package.write_text(wanted)
        run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)
    stamp = folder / "py" / "installed"
    if not stamp.exists() or stamp.read_text() != "\n".join(PYTHON):
        venv.create(folder / "py", with_pip=True)
        run(str(folder / "py" / "bin" / "python"), "-m", "pip", "install", "--quiet", *PYTHON, cwd=folder)
        stamp.write_text("\n".join(PYTHON))


def run(*argv: str, cwd: Path) -> None:
    program = shutil.which(argv[0])
    if program is None:
        sys.exit(f"{argv[0]} is needed to install the outside clients")
    subprocess.run([program, *argv[1:]], cwd=cwd, check=True)


if __name__ == "__main__":
    install(Path(sys.argv[1]))
