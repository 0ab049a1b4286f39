"""What an empty list says: what will stand there, so that a page without rows still tells what it is for."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

Words = str | Promise

# By model label. The button below is the list's own "add", for those who may.
EMPTY_LISTS: dict[str, Words] = {
    "auth.User": gettext_lazy("People who may log in here. A role in a team decides what each may see and do."),
    "billing.Budget": gettext_lazy(
        "A budget limits what a line, an account or the whole team spends per day, week or month: it tells at its"
        " thresholds, and a hard one refuses calls."
    ),
    "billing.ExchangeRate": gettext_lazy(
        "Dated rates turn prices in other currencies into the team's own. Without a rate such calls stay unpriced."
    ),
    "billing.LedgerEntry": gettext_lazy("Every charge, cost and credit is booked here, once, and never changed."),
    "billing.Price": gettext_lazy(
        "What a model costs per million tokens or per call, from a date on. Calls of a model without a price are"
        " marked as unpriced and can be billed later."
    ),
    "billing.RequestRecord": gettext_lazy(
        "Each call that the gateway admits stands here with its attempt chain and its charge. Make one with a gateway"
        " key."
    ),
    "billing.Statement": gettext_lazy("A closed month is kept here as the file it was, byte for byte."),
    "keys.Account": gettext_lazy(
        "Upstream keys that share one balance or quota belong to one account: when it runs dry, all of them rest."
    ),
    "keys.KeyEvent": gettext_lazy("Whenever an upstream key cools down, dies or recovers, it is noted here with why."),
    "keys.Upstream": gettext_lazy(
        "An upstream is one address that answers: a provider or a relay, with the models it has and the keys for it."
    ),
    "keys.UpstreamKey": gettext_lazy("The keys that the gateway spends. Paste many at once on the pool page."),
    "keys.WordingRule": gettext_lazy(
        "How an upstream's own words are read. The common ones are built in; what nobody knew gathers on the classifier"
        " page, where one click makes a rule."
    ),
    "routing.Route": gettext_lazy(
        "A route is a list of rules, read from the top: the first that matches decides where a call goes."
    ),
    "routing.RoutingRule": gettext_lazy(
        "A rule says when it applies and which group or upstream then serves. Add rules on the page of their route."
    ),
    "routing.StrategyGroup": gettext_lazy(
        "A group puts upstreams into an order, by priority, weight, speed or price, and says when to move on to the"
        " next."
    ),
    "tenants.Alert": gettext_lazy(
        "When a key dies, money runs out or a budget fills, it is noted and mailed. Nothing yet."
    ),
    "tenants.AuditEntry": gettext_lazy("Every change that anybody makes is noted here: who, when, which fields."),
    "tenants.BusinessLine": gettext_lazy(
        "A line is one consumer, a bot or a batch job: the unit of budgets and bills. It calls with gateway keys of its"
        " own."
    ),
    "tenants.GatewayKey": gettext_lazy("A line calls with a gateway key, through the SDK it already uses."),
    "tenants.Membership": gettext_lazy("Who belongs to a team, and what each may do."),
    "tenants.Tenant": gettext_lazy("A team owns lines, keys, routes and bills, and sees nothing of other teams."),
}


def lesson_of(label: str) -> Words:
    """Return the sentence for a model's empty list, "" where none is known."""
    return EMPTY_LISTS.get(label, "")
