"""Ready-made ways to make the first call with a new gateway key."""

import json
from dataclasses import dataclass
from string import Template
from typing import Any

from tenants.core.access import model_allowed
from tenants.models import BusinessLine

_ANY_MODEL = "MODEL"
_TEXTS = (
    (
        "curl",
        "sh",
        """
curl $base/v1/chat/completions \\
  -H 'Authorization: Bearer $secret' \\
  -H 'Content-Type: application/json' \\
  -d '$body'
""",
    ),
    (
        "OpenAI SDK",
        "python",
        """
from openai import OpenAI

client = OpenAI(base_url="$base/v1", api_key="$secret")
answer = client.chat.completions.create(
    model="$model", messages=[{"role": "user", "content": "Hello!"}]
)
print(answer.choices[0].message.content)
""",
    ),
    (
        "Anthropic SDK",
        "python",
        """
from anthropic import Anthropic

client = Anthropic(base_url="$base", api_key="$secret")
answer = client.messages.create(
    model="$model", max_tokens=1024, messages=[{"role": "user", "content": "Hello!"}]
)
print(answer.content[0].text)
""",
    ),
    (
        "Gemini SDK",
        "python",
        """
from google import genai

client = genai.Client(api_key="$secret", http_options={"base_url": "$base"})
print(client.models.generate_content(model="$model", contents="Hello!").text)
""",
    ),
    (
        "Claude Code",
        "sh",
        """
export ANTHROPIC_BASE_URL=$base
export ANTHROPIC_AUTH_TOKEN=$secret
claude --model $model
""",
    ),
    (
        "Codex",
        "toml",
        """
# ~/.codex/config.toml; then: export POINTSMAN_KEY=$secret
model = "$model"
model_provider = "pointsman"

[model_providers.pointsman]
name = "Pointsman"
base_url = "$base/v1"
env_key = "POINTSMAN_KEY"
wire_api = "responses"
""",
    ),
)


@dataclass(frozen=True, slots=True)
class Snippet:
    """One way. `name` is the tab, `text` is what is copied."""

    name: str
    language: str
    text: str


def snippets(base: str, secret: str, line: BusinessLine) -> list[Snippet]:
    """Return the snippets for a gateway at `base` (no trailing slash), with a model that the line may use."""
    model = example_model(line)
    values = {
        "base": base,
        "secret": secret,
        "model": model,
        "body": json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello!"}]}),
    }
    return [Snippet(name, language, Template(text.strip("\n")).substitute(values)) for name, language, text in _TEXTS]


def example_model(line: BusinessLine) -> str:
    """Return a model's name that the line may ask for, or a stand-in when none is known."""
    named = [glob for glob in line.model_globs if not set(glob) & set("*?")]
    lists: list[Any] = list(line.tenant.upstreams.filter(enabled=True).values_list("model_list", "read_models"))
    listed = [
        name
        for model_list, read in lists
        for name in (model_list if isinstance(model_list, list) else read)
        if model_allowed(line.model_globs, name)
    ]
    return next(iter([*named, *listed]), _ANY_MODEL)
