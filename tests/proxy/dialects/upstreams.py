"""What a request says, read out of an upstream's dialect by hand: not by the code that is tested."""

import base64
import json
from typing import Any

from keys.core.dialect import Dialect
from tests.fake.connection import Recorded


class Seen:
    """A recorded upstream request. Texts are joined; images are bytes; results are (call id, text)."""

    def __init__(self, recorded: Recorded, dialect: Dialect) -> None:
        self.recorded = recorded
        self.body: Any = recorded.json
        self._dialect = dialect

    @property
    def system(self) -> str:
        match self._dialect:
            case Dialect.OPENAI:
                return "".join(
                    _text(m["content"]) for m in self.body["messages"] if m["role"] in ("system", "developer")
                )
            case Dialect.RESPONSES:
                items = [i for i in self.body["input"] if i.get("role") in ("system", "developer")]
                return (self.body.get("instructions") or "") + "".join(_text(item["content"]) for item in items)
            case Dialect.ANTHROPIC:
                return _text(self.body.get("system", ""))
            case Dialect.GEMINI:
                return _text(self.body.get("systemInstruction", {}).get("parts", []))

    @property
    def said(self) -> str:
        """The text of the user's turns, tool results left out."""
        return "".join(_text(self._parts_of(m)) for m in self._turns() if m.get("role") == "user")

    @property
    def images(self) -> list[bytes]:
        parts = [part for turn in self._turns() for part in self._parts_of(turn)]
        return [self._decoded(data) for part in parts if (data := _image(part))]

    def _decoded(self, data: str) -> bytes:
        if self._dialect is Dialect.GEMINI:  # takes both alphabets of base64; Google's SDK writes the URL-safe one
            data = data.replace("-", "+").replace("_", "/")
        return base64.b64decode(data, validate=True)

    @property
    def tools(self) -> list[tuple[str, Any]]:
        """(name, schema) of each that is a function."""
        tools = self.body.get("tools", [])
        match self._dialect:
            case Dialect.OPENAI:
                return [(tool["function"]["name"], tool["function"]["parameters"]) for tool in tools]
            case Dialect.RESPONSES:
                return [(tool["name"], tool["parameters"]) for tool in tools if tool["type"] == "function"]
            case Dialect.ANTHROPIC:
                return [(tool["name"], tool["input_schema"]) for tool in tools]
            case Dialect.GEMINI:
                declared = [one for tool in tools for one in tool["functionDeclarations"]]
                # The SDK writes this one name in Python's style, and Gemini takes both.
                return [(o["name"], o.get("parametersJsonSchema", o.get("parameters_json_schema"))) for o in declared]

    @property
    def calls(self) -> list[tuple[str, str, Any]]:
        """(id, name, arguments) of each call in the history; Gemini's id may be missing: ""."""
        match self._dialect:
            case Dialect.OPENAI:
                made = [call for m in self.body["messages"] for call in m.get("tool_calls") or []]
                return [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in made]
            case Dialect.RESPONSES:
                items = [item for item in self.body["input"] if item.get("type") == "function_call"]
                return [(item["call_id"], item["name"], json.loads(item["arguments"])) for item in items]
            case Dialect.ANTHROPIC:
                blocks = [b for turn in self._turns() for b in self._parts_of(turn) if b.get("type") == "tool_use"]
                return [(block["id"], block["name"], block["input"]) for block in blocks]
            case Dialect.GEMINI:
                parts = [p["functionCall"] for t in self._turns() for p in t["parts"] if "functionCall" in p]
                return [(call.get("id", ""), call["name"], call["args"]) for call in parts]

    @property
    def results(self) -> list[tuple[str, str]]:
        match self._dialect:
            case Dialect.OPENAI:
                return [(m["tool_call_id"], _text(m["content"])) for m in self.body["messages"] if m["role"] == "tool"]
            case Dialect.RESPONSES:
                items = [item for item in self.body["input"] if item.get("type") == "function_call_output"]
                return [(item["call_id"], _text(item["output"])) for item in items]
            case Dialect.ANTHROPIC:
                blocks = [b for turn in self._turns() for b in self._parts_of(turn) if b.get("type") == "tool_result"]
                return [(block["tool_use_id"], _text(block["content"])) for block in blocks]
            case Dialect.GEMINI:
                parts = [p["functionResponse"] for t in self._turns() for p in t["parts"] if "functionResponse" in p]
                return [(one.get("id", ""), one["response"]["output"]) for one in parts]

    def _turns(self) -> list[Any]:
        name = {Dialect.RESPONSES: "input", Dialect.GEMINI: "contents"}.get(self._dialect, "messages")
        turns: list[Any] = self.body[name]
        return turns

    def _parts_of(self, turn: Any) -> list[Any]:
        content = turn.get("parts", turn.get("content")) or []
        return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content or [] if isinstance(part.get("text"), str))


def _image(part: Any) -> str:
    """The base64 text of an image part, in whichever dialect."""
    if "inlineData" in part:
        return str(part["inlineData"]["data"])
    match part.get("type"):
        case "image":
            return str(part["source"]["data"])
        case "image_url":
            return str(part["image_url"]["url"]).partition("base64,")[2]
        case "input_image":
            return str(part["image_url"]).partition("base64,")[2]
    return ""
