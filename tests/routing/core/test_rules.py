"""Which rules decide, what they set, and what they forbid."""

from routing.core.choose import choose
from routing.core.rules import judge, judge_hop, local_time
from routing.core.views import Pin
from tests.routing.core.build import GROUP, NOW, facts, order, rule, table, upstream
from tests.routing.core.build import decided as decide_in

LOCAL = local_time(NOW, "UTC")


def test_the_first_match_with_a_target_decides() -> None:
    rules = [rule(1, {"line": "other"}, group_id=5), rule(2, group_id=6), rule(3, group_id=7)]
    judgement = judge(rules, facts(), LOCAL)
    assert judgement.decider == rules[1]
    assert [(v.name, v.matched, v.why) for v in judgement.verdicts] == [
        ("rule1", False, "line is support-bot, not other"),
        ("rule2", True, "decides"),
        ("rule3", False, "not reached: rule2 decided"),
    ]


def test_values_gather_from_all_matches_and_later_wins() -> None:
    rules = [
        rule(1, set={"temperature": 0, "top_p": 1}),
        rule(2, {"stream": True}, set={"temperature": 9}),
        rule(3, set={"temperature": 1}, proceed=True),
        rule(4, set={"max_tokens": 5}, group_id=6),
        rule(5, set={"max_tokens": 7}),
    ]
    judgement = judge(rules, facts(), LOCAL)
    assert judgement.values == {"temperature": 1, "top_p": 1, "max_tokens": 5}
    assert judgement.verdicts[0].why == "sets temperature, top_p"
    assert judgement.verdicts[3].why == "sets max_tokens and decides"


def test_continue_lets_later_rules_add_values_but_not_decide_again() -> None:
    rules = [
        rule(1, group_id=6, proceed=True),
        rule(2, set={"temperature": 1}, group_id=7),
        rule(3, deny="no"),
        rule(4, set={"top_p": 1}),
    ]
    judgement = judge(rules, facts(), LOCAL)
    assert judgement.decider == rules[0]
    assert judgement.values == {"temperature": 1, "top_p": 1}
    assert judgement.verdicts[2].why == "rule1 decided"


def test_a_deny_decides() -> None:
    rules = [rule(1, {"model": "gpt-*"}, deny="too dear"), rule(2, group_id=GROUP)]
    judgement = judge(rules, facts(), LOCAL)
    assert judgement.decider == rules[0]
    assert judgement.verdicts[0].why == "denies"
    refusal = decide_in(table([upstream(1)], rules=rules)).refusal
    assert refusal is not None
    assert (refusal.status, refusal.text, refusal.do_not_retry) == (403, "too dear", True)


def test_an_empty_deny_denies_nothing() -> None:
    judgement = judge([rule(1, deny="", set={"n": 1}), rule(2, group_id=GROUP)], facts(), LOCAL)
    assert (judgement.decider, judgement.values) == (rule(2, group_id=GROUP), {"n": 1})


def test_second_phase_rules_take_no_part_in_the_first() -> None:
    rules = [rule(1, {"upstream": "*"}, deny="no", set={"top_p": 1}), rule(2, group_id=6)]
    judgement = judge(rules, facts(), LOCAL)
    assert judgement.decider == rules[1]
    assert judgement.values == {}
    assert [verdict.rule_id for verdict in judgement.verdicts] == [2]


def test_the_second_phase_judges_each_hop_wherever_its_rules_stand() -> None:
    rules = [
        rule(1, group_id=GROUP),
        rule(2, {"upstream": "up2"}, set={"model": "gpt-4o-2024-11-20"}),
        rule(3, {"upstream": "up*", "model": "gpt-4o"}, set={"temperature": 1}),
        rule(4, {"upstream": "up3"}, deny="no"),
        rule(5, {"upstream": "up3"}, set={"top_p": 1}),
    ]
    decision = decide_in(table([upstream(1), upstream(2), upstream(3)], rules=rules))
    assert [(c.key_id, c.model_sent, dict(c.values)) for c in decision.candidates] == [
        (11, "gpt-4o", {"temperature": 1}),
        (21, "gpt-4o-2024-11-20", {"temperature": 1}),
    ]
    assert [c.rules for c in decision.candidates] == [("rule3",), ("rule2", "rule3")]
    denied = judge_hop(rules, facts(), "up3", LOCAL)
    assert denied.deny == "no"
    assert [(v.rule_id, v.matched) for v in denied.verdicts] == [(2, False), (3, True), (4, True)]


def test_the_second_phase_overrides_the_first() -> None:
    rules = [rule(1, {"upstream": "up1"}, set={"top_p": 2}), rule(2, set={"top_p": 1, "n": 1}, group_id=GROUP)]
    (candidate,) = decide_in(table([upstream(1)], rules=rules)).candidates
    assert candidate.values == {"top_p": 2, "n": 1}


def test_inside_a_turn_the_conversation_stays_on_its_rule() -> None:
    rules = [
        rule(1, {"input_tokens": "> 100"}, upstream_id=2),
        rule(2, upstream_id=1, set={"top_p": 1}),
    ]
    routing = table([upstream(1), upstream(2)], rules=rules)
    pin = Pin(11, 1, 2, None, NOW)
    grown = facts(input_tokens=500)
    assert order(decide_in(routing, asked=grown, pin=pin)) == [21]
    inside = decide_in(routing, asked=facts(input_tokens=500, turn=True), pin=pin)
    assert order(inside) == [11]
    assert inside.target.held
    assert inside.candidates[0].values == {"top_p": 1}
    assert inside.target.verdicts[0].why == "the conversation is inside a turn and stays on its rule"


def test_a_deny_above_the_held_rule_still_denies() -> None:
    rules = [rule(1, {"image": True}, deny="no images"), rule(2, upstream_id=1)]
    routing = table([upstream(1)], rules=rules)
    target = choose(facts(turn=True, image=True), routing, NOW, Pin(11, 1, 2, None, NOW))
    assert target.refusal is not None
    assert target.refusal.text == "no images"


def test_a_held_rule_that_no_longer_leads_to_the_key_is_let_go() -> None:
    rules = [rule(1, {"input_tokens": "> 100"}, upstream_id=2), rule(2, upstream_id=1)]
    routing = table([upstream(1), upstream(2)], rules=rules)
    asked = facts(turn=True, input_tokens=500)
    assert not choose(asked, routing, NOW, Pin(99, 1, 2, None, NOW)).held
    assert not choose(asked, routing, NOW, Pin(11, 1, 77, None, NOW)).held
    assert order(decide_in(routing, asked=asked, pin=Pin(99, 1, 2, None, NOW))) == [21]
