"""Rules on the wording of messages that speak of money, quotas, capacity, time and rates.

Written as in `wording_texts`; a relay's own troubles come first, since they borrow these words.
"""

from keys.core.outcome import Cause, Scope
from keys.core.wording import WordingRule as Row

_MONEY = "(balance|credit|credits|fund|funds|quota balance)"
_PERIOD = "(daily|weekly|monthly|hourly|yearly|annual)"
_CAP = "(limit|quota|cap|allowance|budget|allocation|usage|credits)"
_REACHED = "(reached|exceeded|exhausted|used up|hit|depleted|consumed|exceeds|run out|surpassed)"

MONEY = (
    Row(
        "text-relay-credential",
        Cause.SERVER_ERROR,
        message=(
            "upstream (authentication|authorization|auth|credential|credentials|api key)*(fail|invalid|expired)*",
        ),
    ),
    Row(
        "text-token-cap",
        Cause.QUOTA_EXHAUSTED,
        message=(
            "token (quota|remain quota|balance)*(not enough|insufficient|exhausted|used up|exceeded)",
            "(api key|key|this token)*(quota|spend|spending|budget|usage|credit|total|daily|weekly|monthly)"
            " (limit|cap|quota)*",
            "key (limit|quota|budget) *" + _REACHED,
            "(api key|this key)*(has |)(reached|exceeded|exhausted|used up|hit)*" + _CAP,
        ),
        unless=("per minute*", "per second*", "rate limit*per min*", "concurren*", "*invalid api key"),
        scope=Scope.KEY,
        fixed=True,
    ),
    Row(
        "text-trial-key",
        Cause.QUOTA_EXHAUSTED,
        message=("trial (key|token)*limited to*",),
        scope=Scope.KEY,
        provider="cohere",
    ),
    Row(
        "text-token-cap-zh",
        Cause.QUOTA_EXHAUSTED,
        message=("*(令牌|密钥|api key|apikey)*(额度|配额|限额)*(用尽|用完|耗尽|不足|超|达到|上限)", "*令牌*额度"),
        scope=Scope.KEY,
        fixed=True,
    ),
    Row(
        "text-balance",
        Cause.INSUFFICIENT_BALANCE,
        message=(
            "(insufficient|not enough|no|low|negative|lack of|lacks|inadequate|zero) "
            "(account |prepaid |remaining |available |api |user |wallet |paid |token |google one ai |)" + _MONEY,
            "(out of|run out of|ran out of|used all*|does not have any|do not have any|do not have enough)"
            "*(credits|credit|funds|balance)",
            "(does|do) not have (enough|sufficient)*(credits|credit|funds|balance)",
            "insufficient * (balance|credits|funds)",
            _MONEY
            + " (is|are|was|has|have)*(insufficient|not enough|too low|exhausted|depleted|negative|used up|empty|zero)",
            _MONEY + " (insufficient|exhausted|depleted|not enough|too low|overdue)",
            "(no|have no|not any) (prepaid|remaining|available|paid) (credits|credit|balance|funds)*",
            "user quota is not enough*",
            "(overdue|outstanding|unpaid) (balance|bill|invoice|payment)*",
            "(arrears|arrearage|overdue payment|payment overdue|payment required|account is in debt)",
            "account is in good standing",
            "issue with your (billing|payment)*",
            "(account|subscription)*not active*billing*",
            "(requires|require|need|needs) (a |)(paid|positive) balance",
            "(purchase|buy|add) (more |additional |)credits to (continue|use|proceed)*",
            "(subscription|plan|coding plan|membership|package) *(has |is |)expired",
            "check your account balance",
            "exceeded*quota*account balance",
            "(top up|recharge)*(your|account|balance|continue|to use)*",
        ),
        unless=(
            "(unlock|increase)*(rate limit|free model requests)*",
            "rate limit*per (min|minute|second)*",
            "extra usage is required*",
            "*your own key to accumulate*",
        ),
        fixed=True,
    ),
    Row(
        "text-balance-zh",
        Cause.INSUFFICIENT_BALANCE,
        message=(
            "*余额*(不足|用完|用尽|耗尽|为零|为0|已用|为负|不够|小于)",
            "*(不足|没有|无)*余额",
            "*(欠费|欠款|逾期未付|未缴费)",
            "*(用户|账户|账号|个人|帐户)*额度*(不足|用尽|用完|耗尽|不够)",
            "*(点数|积分|算力|金额|费用|点券|资源包)*(不足|用尽|用完|耗尽|不够)",
            "*(套餐|订阅|会员|资源包|服务)*(到期|过期)",
            "*无可用资源包",
        ),
        unless=("*令牌*额度", "*免费额度"),
        fixed=True,
    ),
)

QUOTAS = (
    Row(
        "text-quota",
        Cause.QUOTA_EXHAUSTED,
        message=(
            "usage (limit|limits|cap|quota)*" + _REACHED,
            _REACHED + "*(usage|spend|spending) (limit|limits|cap|quota)",
            "(spend|spending|billing hard|billing|budget) (limit|cap)*" + _REACHED,
            "budget (has been |is |)(exceeded|exhausted|reached)",
            "free (tier|quota|allowance|trial|allocated quota)*(exhausted|exceeded|used up|reached|ended|expired)",
            "set inference limit*",
            _PERIOD
            + " (token |request |requests |usage |message |api |free |plan |spend |spending |call |)"
            + _CAP
            + "*",
            "(limit|quota|usage|requests|calls)*(today|this (day|week|month))",
            "(used up|exhausted|consumed)*(plan|subscription|package|allowance)",
            "(plan|subscription|package)*(limit|quota|usage)*" + _REACHED,
            "out of extra usage",
            "(billing|usage) (period|cycle)*" + _REACHED,
            "limited to # *(/|per) (day|week|month|hour)",
        ),
        unless=("per minute*", "per second*", "per min*"),
        fixed=True,
    ),
    Row(
        "text-quota-zh",
        Cause.QUOTA_EXHAUSTED,
        message=(
            "*(今日|当日|每日|单日|本日|每天|当天|今天|每周|本周|本月|每月|当月|周|月|日|小时|每小时)*"
            "(限额|上限|限制|额度|配额|次数|用量)",
            "*(额度|配额|限额|次数|用量|流量包)*(用尽|用完|耗尽|超限|达到上限|不足|已满|超出|超过|上限)",
            "*(使用上限|用量上限|消费上限|消费限额)",
            "*(达到|超过|超出|用完|用尽|耗尽)*(配额|额度|限额|免费次数)",
        ),
        unless=("*每分钟", "*每秒", "*并发", "*频率", "*速率", "*#分钟内*", "*# 分钟内*"),
        fixed=True,
    ),
    Row(
        "text-quota-vague",
        Cause.QUOTA_EXHAUSTED,
        message=(
            "exceeded your current quota*",
            "quota (has been |is |was |)(exceeded|exhausted|used up|reached|insufficient|depleted)",
            "(exceeded|exhausted|reached|insufficient|used up|out of|no remaining)*quota",
            "quota limit*" + _REACHED,
            "quota exceeded*",
            "quota will reset*",
        ),
        unless=("e.g. check quota",),
    ),
)

BUSY = (
    Row(
        "text-own-client",
        Cause.PERMISSION_DENIED,
        message=("only (allows|allow|supports|available to)*(client|clients|claude code|codex)*",),
    ),
    Row(
        "text-overloaded",
        Cause.OVERLOADED,
        message=(
            "overloaded",
            "overload",
            "(too|very|currently|is|are|server|service|system) busy*",
            "high demand",
            "(heavy|high|peak) (load|traffic)",
            "(no|at|out of|insufficient|exceeded|maximum) (capacity|resources available)*",
            "capacity (exhausted|exceeded|reached|is full|unavailable)*",
            "unable to handle additional requests",
            "no available (account|accounts|upstream)*",
            "no auth available*",
            "loading model",
            "model is loading*",
            "(service|model|server) (is |)(temporarily|currently) unavailable*",
            "service unavailable",
            "unable to process your request",
            "上游*饱和",
        ),
        unless=("service tier capacity*", "exhausted your capacity*", "rate limit*per*"),
        statuses=(403, 429, 498, 503, 529, 500, 502, 0, 400),
    ),
    Row(
        "text-overloaded-zh",
        Cause.OVERLOADED,
        message=(
            "*(繁忙|负载*饱和|负载过高|负载已满|访问量过大|过载|拥挤|算力不足|资源紧张|排队人数|负载较高|服务忙)",
        ),
    ),
    Row(
        "text-timeout",
        Cause.TIMEOUT,
        message=(
            "^*(request|operation|response|upstream|generation)* (timed out|timeout|time out)",
            "deadline (exceeded|expired)*",
            "^timeout",
            "*请求超时",
            "*响应超时",
        ),
        statuses=(408, 5, 0),
    ),
    Row(
        "text-rate",
        Cause.RATE_LIMITED,
        message=(
            "rate limit*",
            "rate limited*",
            "ratelimit*",
            "too many (requests|tokens|concurrent)*",
            "(request|requests|tokens) per (min|minute|second)*",
            "(rpm|tpm|rps|qps|tps)*(limit|exceed)*",
            "limit*(rpm|tpm|rps|qps)",
            "qps request limit*",
            "(concurrency|concurrent*) *(limit|exceed)*",
            "(throttled|throttling)*",
            "slow down*",
            "too (frequent|frequently|quickly|fast)*",
            "max request*try again after*",
            "exceeded*request limit",
        ),
        statuses=(400, 403, 429, 503, 500, 0),
    ),
    Row(
        "text-rate-zh",
        Cause.RATE_LIMITED,
        message=(
            "*(请求数限制|总请求数限制|请求过于频繁|请求频繁|请求过多|流控|频率过高|并发数过高|并发*(超|过高|上限|限制)|限流|限速)",
            "*(速率|频率|请求数|并发)*(限制|超限|超过|过高|上限)",
            "*(每分钟|每秒|分钟内)*(最多|限制|上限|次)",
        ),
    ),
)
