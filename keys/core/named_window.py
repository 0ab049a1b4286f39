"""Which window a refusal names (a minute or less, or an hour and more), and whether it names one model."""

import re
from enum import StrEnum

from keys.core.evidence import Evidence, normalised
from keys.core.wording import within

LONG_S = 3600


class Window(StrEnum):
    NONE = "none"
    SHORT = "short"
    LONG = "long"


_LONG = within(
    (
        "per (day|week|month|hour|year)",
        "(daily|weekly|monthly|hourly|yearly|annual)",
        "(rpd|tpd|tph|rph|tpw|rpw)",
        "/ (day|week|month|hour|d|h)",
        "/(day|week|month|hour|d|h)",
        "(billing|usage) (period|cycle)",
        "(five|seven|thirty|5|7|24|30) (hour|hours|day|days)",
        "*(byday|perday|byhour|bymonth|permonth|perhour)*",
        "*(今日|当日|每日|单日|本日|每天|当天|今天|每周|本周|本月|每月|当月|每小时|周使用|月使用|日限|日调用)",
    )
)
_SHORT = within(
    (
        "per (minute|min|second|sec|s)",
        "(rpm|tpm|rps|tps|qps|qpm|ipm|itpm|otpm|concurrency|concurrent|burst)",
        "/ (min|minute|sec|second|s|m)",
        "/(min|minute|sec|second|s|m)",
        "*(byminute|perminute|bysecond|persecond)*",
        "*(每分钟|每秒|并发|频率)",
    )
)
_COUNTED = re.compile(
    r"(?:per|every|within|/)\s?(\d{1,9})\s?(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)\b"
    r"|(\d{1,9})\s?(秒|分钟|个?小时|天)(?:钟)?(?:内|之内|的?使用|最多|限)"
)
_TOKEN_LONG = re.compile(r"per_(?:day|week|month|hour)|(?:daily|weekly|monthly|hourly)_|seven_day|five_hour")
_TOKEN_SHORT = re.compile(r"per_(?:minute|second)|(?:^|[_ ])(?:rpm|tpm|qps|rps|ipm)(?:[_ ]|$)|concurren|burst")
_SENTENCE = re.compile(r"[.!;](?:\s|$)|[。！；]")
_UNITS = {"s": 1, "秒": 1, "m": 60, "分": 60, "h": 3600, "小": 3600, "个": 3600, "d": 86400, "天": 86400}

_MODEL = within(
    (
        "(for|of|on) (the |this |your |)model*",
        "for * model",
        "(rate limit|limit|quota) reached for *in organization",
        "this model",
        "*(usermodel|bymodel|permodel)*",
        "*模型",
    )
)
_MODEL_NAME = re.compile(
    r"\b(?:for|on|of)\s+(?:the\s+)?\W?[\w./-]{0,40}?(?:gpt|claude|gemini|llama|qwen|deepseek|glm|kimi|mistral|grok|doubao)"
    r"[\w.:/-]{0,40}\d|\b(?:opus|sonnet|haiku)\b",
    re.IGNORECASE,
)


def window_of(evidence: Evidence) -> Window:
    """Return the window that the tokens name (the longest wins), else that of the first sentence naming one."""
    tokens = " ".join(evidence.tokens)
    if _TOKEN_LONG.search(tokens):
        return Window.LONG
    if _TOKEN_SHORT.search(tokens):
        return Window.SHORT
    for sentence in _SENTENCE.split(normalised(evidence.message, whole=True)):
        if (found := _window_in(sentence)) is not Window.NONE:
            return found
    return Window.NONE


def names_a_model(evidence: Evidence) -> bool:
    """Tell whether a limit is stated for one model and not for the whole account."""
    if any("per_model" in token or "by_model" in token for token in evidence.tokens):
        return True
    for item in evidence.objects:
        whole_answer = "choices" in item or "object" in item
        dimensions = item.get("quotaDimensions")
        if (item.get("model") and not whole_answer) or (isinstance(dimensions, dict) and dimensions.get("model")):
            return True
    return bool(_MODEL.search(evidence.wording) or _MODEL_NAME.search(evidence.message))


def _window_in(sentence: str) -> Window:
    seconds = [int(a or c) * _UNITS[(b or d)[0]] for a, b, c, d in _COUNTED.findall(sentence)]
    if _LONG.search(sentence) or any(value >= LONG_S for value in seconds):
        return Window.LONG
    return Window.SHORT if seconds or _SHORT.search(sentence) else Window.NONE
