"""One conversation, one answer and one stream, as each dialect writes them."""

from typing import Any

from keys.core.dialect import Dialect

Body = dict[str, Any]

PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQ="
SCHEMA: Body = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ANSWER_SCHEMA: Body = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}

OPENAI_REQUEST: Body = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                {"type": "image_url", "image_url": {"url": "https://example.com/cat.jpg"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
            ],
        },
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
                {"id": "call_2", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "cold"},
        {"role": "tool", "tool_call_id": "call_2", "content": "warm"},
        {"role": "user", "content": "And now?"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": SCHEMA}}
    ],
    "tool_choice": {"type": "function", "function": {"name": "weather"}},
    "parallel_tool_calls": False,
    "max_tokens": 500,
    "stop": ["END", "STOP"],
    "temperature": 0.5,
    "seed": 7,
    "user": "u-1",
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": ANSWER_SCHEMA, "strict": True},
    },
    "stream": True,
}

RESPONSES_REQUEST: Body = {
    "model": "m",
    "instructions": "Be brief.",
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
                {"type": "input_image", "image_url": "https://example.com/cat.jpg"},
                {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "gAAA",
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city":"Oslo"}'},
        {"type": "function_call", "call_id": "call_2", "name": "weather", "arguments": '{"city":"Rome"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "cold"},
        {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "warm"}]},
        {"role": "user", "content": "And now?"},
    ],
    "tools": [
        {
            "type": "function",
            "name": "weather",
            "description": "Tells the weather.",
            "parameters": SCHEMA,
            "strict": False,
        },
        {"type": "web_search"},
        {"type": "namespace", "name": "crm", "tools": []},
    ],
    "tool_choice": {"type": "function", "name": "weather"},
    "parallel_tool_calls": False,
    "max_output_tokens": 500,
    "temperature": 0.5,
    "user": "u-1",
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "json_schema", "name": "answer", "schema": ANSWER_SCHEMA, "strict": True}},
    "include": ["reasoning.encrypted_content"],
    "client_metadata": {"a": "b"},
    "store": False,
    "stream": True,
}

ANTHROPIC_REQUEST: Body = {
    "model": "m",
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=1a2b"},
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/cat.jpg"}},
                {
                    "type": "document",
                    "title": "a.pdf",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "sig=="},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}},
                {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [
                        {"type": "text", "text": "cold"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                    ],
                },
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no such city", "is_error": True},
                {"type": "text", "text": "And now?", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ],
    "tools": [
        {
            "name": "weather",
            "description": "Tells the weather.",
            "input_schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", **SCHEMA},
            "cache_control": {"type": "ephemeral"},
            "defer_loading": True,
        },
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "tool_choice": {"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
    "max_tokens": 500,
    "stop_sequences": ["END", "STOP"],
    "thinking": {"type": "adaptive", "display": "omitted"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": ANSWER_SCHEMA}},
    "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
    "metadata": {"user_id": "u-1"},
    "stream": True,
}

GEMINI_REQUEST: Body = {
    "system_instruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "What is this?"},
                {"inlineData": {"mimeType": "image/png", "data": PNG}},
                {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.com/cat.jpg"}},
                {"inlineData": {"mimeType": "application/pdf", "data": PDF, "displayName": "a.pdf"}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "Hm.", "thought": True},
                {"text": "Let me look."},
                {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "weather", "args": {"city": "Rome"}, "id": "g2"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "weather", "response": {"output": "cold"}}},
                {"functionResponse": {"name": "weather", "id": "g2", "response": {"degrees": 30}}},
                {"text": "And now?"},
            ],
        },
    ],
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "weather",
                    "description": "Tells the weather.",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {"city": {"type": "STRING", "nullable": True}},
                        "required": ["city"],
                    },
                }
            ]
        },
        {"googleSearch": {}},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
    "generationConfig": {
        "maxOutputTokens": 500,
        "stopSequences": ["END", "STOP"],
        "temperature": 0.5,
        "topK": 20,
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2048},
        "responseMimeType": "application/json",
        "responseJsonSchema": ANSWER_SCHEMA,
    },
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
}

REQUESTS: dict[Dialect, Body] = {
    Dialect.OPENAI: OPENAI_REQUEST,
    Dialect.RESPONSES: RESPONSES_REQUEST,
    Dialect.ANTHROPIC: ANTHROPIC_REQUEST,
    Dialect.GEMINI: GEMINI_REQUEST,
}
# The names by which an upstream of each dialect is asked in the golden files.
MODELS: dict[Dialect, str] = {
    Dialect.OPENAI: "relay-model",
    Dialect.RESPONSES: "gpt-5",
    Dialect.ANTHROPIC: "claude-sonnet-4-5",
    Dialect.GEMINI: "gemini-3-pro",
}

ANSWERS: dict[Dialect, Body] = {
    Dialect.OPENAI: {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "up",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "It is cold.",
                    "reasoning_content": "Hm.",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url_citation": {
                                "url": "https://a.example",
                                "title": "A",
                                "start_index": 0,
                                "end_index": 11,
                            },
                        }
                    ],
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
                        }
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 30,
            "completion_tokens": 12,
            "total_tokens": 42,
            "prompt_tokens_details": {"cached_tokens": 10},
            "completion_tokens_details": {"reasoning_tokens": 4},
        },
    },
    Dialect.RESPONSES: {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": "completed",
        "model": "up",
        "output": [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Hm."}],
                "encrypted_content": "gAAA",
            },
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [
                    {
                        "type": "output_text",
                        "text": "It is cold.",
                        "annotations": [
                            {
                                "type": "url_citation",
                                "url": "https://a.example",
                                "title": "A",
                                "start_index": 0,
                                "end_index": 11,
                            }
                        ],
                    }
                ],
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "weather",
                "arguments": '{"city":"Oslo"}',
            },
        ],
        "usage": {
            "input_tokens": 30,
            "input_tokens_details": {"cached_tokens": 10},
            "output_tokens": 12,
            "output_tokens_details": {"reasoning_tokens": 4},
            "total_tokens": 42,
        },
    },
    Dialect.ANTHROPIC: {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "up",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "sig=="},
            {
                "type": "text",
                "text": "It is cold.",
                "citations": [
                    {
                        "type": "web_search_result_location",
                        "url": "https://a.example",
                        "title": "A",
                        "cited_text": "cold",
                        "encrypted_index": "x",
                    }
                ],
            },
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 15,
            "cache_creation_input_tokens": 5,
            "cache_read_input_tokens": 10,
            "output_tokens": 12,
        },
    },
    Dialect.GEMINI: {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "Hm.", "thought": True},
                        {"text": "It is "},
                        {"text": "cold."},
                        {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "c2ln"},
                    ],
                },
                "finishReason": "STOP",
                "index": 0,
                "groundingMetadata": {"groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}]},
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 30,
            "cachedContentTokenCount": 10,
            "candidatesTokenCount": 8,
            "thoughtsTokenCount": 4,
            "totalTokenCount": 42,
        },
        "modelVersion": "up",
        "responseId": "g-1",
    },
}
