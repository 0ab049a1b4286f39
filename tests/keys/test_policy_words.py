"""A policy in words: the numbers are those of the presets."""

import pytest
from django.utils.translation import override

from keys.adminfields import PolicyField
from keys.core.policy import PRESETS, Policy
from keys.policy_words import policy_words, preset_words, stored_words

STANDARD = [
    "After a rate limit the key rests as long as the answer asks for, at most 60 min; when it names no time, 60 s, "
    "doubling to 10 min.",
    "After 3 failures in a row, timeouts included, the key rests 60 s, doubling to 10 min.",
    "Out of balance, the account rests 30 min; out of quota, until the time named, else 60 min.",
    "A key whose credentials are refused is dead until a person revives it; a refused permission counts as a failure.",
    "A request tries at most 5 keys; no try begins later than 2 min after it came, 15 min when it is streamed.",
    "A try is given up after 10 s without a connection or 5 min without content; a request waits up to 30 s for a key "
    "that is busy.",
]


@pytest.fixture(autouse=True)
def english():
    with override("en"):
        yield


@pytest.mark.parametrize(
    ("preset", "differing"),
    [
        ("standard", {}),
        (
            "keypool",
            {
                0: "After a rate limit the key rests 60 s, whatever the answer asks for.",
                1: "After 3 failures in a row the key rests 5 min; timeouts never make it rest.",
                2: "Out of balance, the account is dead until a person or a balance above zero revives it; out of "
                "quota, it rests until the time named, else 60 min.",
                4: "A request tries at most 2 keys; no try begins later than 2 min after it came, 15 min when it is "
                "streamed.",
            },
        ),
        (
            "relay",
            {
                4: "A request tries at most 5 keys; no try begins later than 15 s after it came.",
                5: "A try is given up after 10 s without a connection or 15 s without content; a request waits up to "
                "15 s for a key that is busy.",
            },
        ),
        (
            "strict",
            {3: "Refused credentials or permissions end the request at once; no other key is tried."},
        ),
    ],
)
def test_what_a_preset_does(preset, differing):
    assert preset_words(preset) == [differing.get(place, text) for place, text in enumerate(STANDARD)]


def test_every_preset_has_other_words():
    assert len({tuple(preset_words(name)) for name in PRESETS}) == len(PRESETS)


@pytest.mark.parametrize(
    ("values", "place", "text"),
    [
        ({"cool_429_s": 1800}, 0, "when it names no time, 30 min."),
        ({"cool_429_s": 90.5, "cool_429_max_s": 181}, 0, "at most 181 s; when it names no time, 90.5 s, doubling to"),
        ({"preset": "keypool", "strikes": 1}, 1, "After 1 failure the key rests 5 min;"),
        ({"on_auth": "strike", "on_permission": "dead"}, 3, "count as a failure; a refused permission kills the key."),
        ({"on_auth": "stop"}, 3, "Refused credentials end the request at once; a refused permission counts as"),
    ],
)
def test_single_numbers(values, place, text):
    assert text in stored_words(values)[place]


def test_the_form_explains_every_preset_and_works_without_a_script():
    html = PolicyField(base="as it is").widget.render("policy", {"preset": "relay", "strikes": 4}, {"id": "id_policy"})
    for name in PRESETS:
        assert f'data-preset="{name}"' in html
    assert "whatever the answer asks for" in html
    assert "hidden" not in html
    assert "style=" not in html
    assert "<script" not in html
    assert '<option value="relay" selected>' in html
    assert "strikes = 4" in html
    assert "cool_429_s = 60" in html


def test_a_policy_has_six_sentences():
    assert len(policy_words(Policy())) == 6
