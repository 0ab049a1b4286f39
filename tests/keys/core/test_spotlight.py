"""The matched wording is found again in the text as it came."""

import json

import pytest

from keys.core.evidence import evidence_of
from keys.core.outcome import Cause, Reply
from keys.core.rulebook import DEFAULT_RULES
from keys.core.spotlight import Spot, place_of, spots, suggested
from keys.core.wording import WordingRule


@pytest.mark.parametrize(
    ("said", "text", "found"),
    [
        ("credit balance is too low", "Your Credit-Balance is too\nlow to access", "Credit-Balance is too\nlow"),
        ("does not exist", "it doesn't exist.", "doesn't exist"),
        ("the model does not exist", 'The model "gpt-9" does not exist', 'The model "gpt-9" does not exist'),
        ("余额不足", "错误：余额不足，请充值", "余额不足"),
        ("insufficient_quota", '"code": "insufficient_quota"', "insufficient_quota"),
        ("not there", "nothing like it", None),
        ("***", "anything", None),
        ("a.b(c", "A B C", "A B C"),
    ],
)
def test_a_wording_is_found_as_it_came(said, text, found):
    place = place_of(said, text)
    assert (text[slice(*place)] if place is not None else None) == found


def reply(status, body, **headers):
    return Reply(status, headers, json.dumps(body).encode())


def test_a_built_in_rule_shows_what_it_matched():
    asked = reply(400, {"error": {"message": "Your credit balance is too low to access the API"}})
    evidence = evidence_of(asked)
    rule = DEFAULT_RULES.first(evidence)
    assert rule.cause is Cause.INSUFFICIENT_BALANCE
    text = asked.body.decode()
    (spot,) = [spot for spot in spots(rule, evidence, text) if spot.place == "message"]
    assert "balance" in text[slice(*spot.span)].lower()


def test_codes_headers_and_statuses_are_named():
    rule = WordingRule("own", Cause.RATE_LIMITED, codes=("nap_*",), headers=(("x-nap", "yes"),), statuses=(5,))
    asked = Reply(503, {"x-nap": "YES"}, b'{"error": {"code": "NapTime"}}')
    evidence = evidence_of(asked)
    assert spots(rule, evidence, asked.body.decode()) == (
        Spot("code", "nap_time", (20, 27)),
        Spot("header", "x-nap"),
        Spot("status", "503"),
    )


def test_a_suggested_pattern_matches_its_own_wording_and_leaves_numbers_open():
    evidence = evidence_of(reply(500, {"error": {"message": "Pool #7 (asleep): try again in 41 s " + "word " * 40}}))
    pattern = suggested(evidence)
    assert pattern.startswith("pool *# asleep : try again in # s")
    assert len(pattern) <= 80
    assert WordingRule("own", Cause.OVERLOADED, message=(pattern,)).matches(evidence)


def test_nothing_is_suggested_for_an_answer_without_words():
    assert suggested(evidence_of(Reply(500, {}, b""))) == ""
