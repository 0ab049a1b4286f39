"""Rules on the wording of messages, English and Chinese.

Matched against `Evidence.wording`: lower case, no quoted parts, punctuation of code (`_-()`) as blanks, and
"n't" as " not". Rows go from what is surest to what is vaguest; the position of a row is part of its meaning.
"""

from keys.core.outcome import Cause, Scope
from keys.core.wording import WordingRule as Row

_MONEY = "(balance|credit|credits|fund|funds|quota balance)"
_HOLDER = "(account|organization|organisation|consumer|user|workspace|credential|subscription key|billing account)"
_KEY = "(api key|apikey|api token|access key|access token|auth token|authentication token|bearer token|secret key)"
_GONE = "(suspended|disabled|deactivated|banned|revoked|terminated|blocked|locked|restricted|closed|frozen|deleted)"
_PERIOD = "(daily|weekly|monthly|hourly|yearly|annual)"
_CAP = "(limit|quota|cap|allowance|budget|allocation|usage|credits)"
_REACHED = "(reached|exceeded|exhausted|used up|hit|depleted|consumed|exceeds|run out|surpassed)"

# A refusal about this request's size at this key: before everything, since it wears the codes of other classes.
SIZES = (
    Row(
        "size-rate",
        Cause.RATE_LIMITED,
        message=("request too large*", "extra usage is required*long context", "requested tokens exceed*per min*"),
        unless=("request too large*max(imum|) * context*",),
        statuses=(429, 413, 403, 0),
        scope=Scope.REQUEST,
        reason="size",
        fixed=True,
    ),
    Row(
        "size-azure-day",
        Cause.RATE_LIMITED,
        message=("exceeded*token rate limit*retry after 86400 s*", "*rate limit*pricing tier*after 86400 s*"),
        scope=Scope.REQUEST,
        reason="size",
        fixed=True,
        provider="azure",
    ),
    Row(
        "size-afford",
        Cause.INSUFFICIENT_BALANCE,
        message=("can only afford", "requires more credits or fewer*", "requires more credits, or fewer*"),
        scope=Scope.REQUEST,
        reason="size",
        fixed=True,
        provider="openrouter",
    ),
    Row(
        "size-precharge",
        Cause.INSUFFICIENT_BALANCE,
        message=(
            "*预扣费",
            "*预扣额度",
            "*预扣除",
            "pre (consume|deduct|charge|deduction)*",
            "pre(consumed|deducted) quota*",
        ),
        unless=("token quota is not enough*",),
        scope=Scope.REQUEST,
        reason="size",
        fixed=True,
        provider="new-api",
    ),
)

# Read before a text that may quote the client is set aside as validation.
REQUESTS = (
    Row(
        "text-context",
        Cause.CONTEXT_TOO_LONG,
        message=(
            "(maximum|max|available|model|models) (context|prompt) (length|size|window)*",
            "(exceed|exceeds|exceeded|exceeding|overflow|overflows|beyond|larger than|longer than)*"
            "(context|prompt) (length|window|size|limit)",
            "context (length|window|size|limit)*(exceed|exceeds|exceeded|overflow|too (small|long|large)|not enough)",
            "context the overflows",
            "context length of only",
            "(prompt|input|conversation|messages|request|inputs) (is|are) too (long|large for*context)*",
            "prompt too long",
            "input too long*",
            "too many (input tokens|tokens in*prompt)",
            "input token count*exceed*",
            "exceed*(maximum|max) (number of|allowed|input|total) *tokens",
            "exceed*model token limit",
            "exceed*model s token limit",
            "input tokens exceed*",
            "range of input length should be",
            "must be less than the model s context*",
            "input length*exceed*",
            "too large for model with*",
            "reduce the length of the (messages|prompt|input)*",
            "(maximum|max) (prompt|input) (length|tokens)*but*",
            "token count*exceed*(maximum|limit|context)*",
        ),
        unless=("string too long*", "per min*", "rate limit*", "image*dimensions*", "per request*image*"),
        statuses=(4, 5, 0),
    ),
    Row(
        "text-context-zh",
        Cause.CONTEXT_TOO_LONG,
        message=(
            "*超长",
            "*上下文*(超过|超出|过长|超限|太长)",
            "*(超过|超出|超)*(上下文|最大长度|最大输入|最大token|token上限|长度限制)",
            "*(输入|提示词|prompt|文本|内容|对话)*(过长|太长)",
            "*输入*长度*(超|大于)",
        ),
        unless=("*频率", "*分钟"),
    ),
)

BANNED = (
    Row(
        "text-banned",
        Cause.AUTH_INVALID,
        message=(
            _HOLDER + "*(has been|is|was|were|been) (temporarily |permanently |)" + _GONE,
            "your access*(was|has been|is) (terminated|suspended|revoked)",
            "(organization|account) is on hold",
            "(api key|key|token)*(has been|is|was) (reported as |)(leaked|compromised|revoked|disabled|suspended|banned)",
            _HOLDER + " (suspended|disabled|deactivated|banned|blocked|terminated)",
        ),
        unless=("*your project has been denied*", "rate limit*", "model*disabled for*"),
    ),
    Row(
        "text-banned-zh",
        Cause.AUTH_INVALID,
        message=(
            "*(用户|账户|账号|帐号|帐户|组织|密钥|令牌|api key|apikey)*(封禁|禁用|停用|冻结|吊销|注销|封号|锁定|被封|拉黑)",
        ),
        unless=("*欠费", "*余额", "*充值", "*模型*禁用"),
    ),
)

CONTENT = (
    Row(
        "text-content",
        Cause.CONTENT_FILTERED,
        message=(
            "content (management|filter|filtering|usage|moderation|safety|policy)*",
            "(usage|safety|acceptable use|moderation) (policy|policies)",
            "(was|were|been|is|being|as) flagged*",
            "flagged (for|as|by)*",
            "safety (system|filter|settings|reasons)",
            "rejected*(safety|high risk|moderation|inappropriate)",
            "considered high risk",
            "inappropriate content",
            "prohibited content",
            "(sensitive|risk) (information|content|words)",
            "(input|output|prompt|response) *(new sensitive|sensitive)",
            "sensitive words detected",
            "requires moderation*",
            "blocked by*(safety|moderation|content|policy)*",
        ),
        unless=("data policy*", "account*(terminated|suspended|banned|disabled)*"),
        statuses=(400, 403, 422, 451, 5, 0),
    ),
    Row(
        "text-content-zh",
        Cause.CONTENT_FILTERED,
        message=(
            "*(敏感|违规|不安全|不合规|不当|违禁|涉黄|涉政)*(内容|信息|词|输入|提示|文本)",
            "*(内容|输入|提示词|文本|输出|图片)*(敏感|违规|不合规|风险|违禁|未通过审核|审核未通过|审核不通过)",
            "*(内容安全|安全审核|风控拦截|内容审核|敏感词)",
        ),
        unless=("*账号*封", "*用户*封", "*令牌", "*频率"),
        statuses=(400, 403, 422, 451, 5, 0),
    ),
)

# Synthetic token of `evidence`: the message begins with a path into the request.
VALIDATION = (Row("validation", Cause.BAD_REQUEST, codes=("validation_error",), statuses=(400, 404, 413, 422, 0)),)

MONEY = (
    Row(
        "text-relay-credential",
        Cause.SERVER_ERROR,
        message=(
            "upstream (authentication|auth|authorization|credential|credentials|api key|account)*(fail|invalid|expired)*",
        ),
    ),
    Row(
        "text-token-cap",
        Cause.QUOTA_EXHAUSTED,
        message=(
            "token (quota|remain quota|balance)*(not enough|insufficient|exhausted|used up|exceeded)",
            "(api key|key|this token)*(quota|spend|spending|budget|usage|credit|total|daily|weekly|monthly) (limit|cap|quota)*",
            "key (limit|quota|budget) *" + _REACHED,
            "(api key|this key)*(has |)(reached|exceeded|exhausted|used up|hit)*" + _CAP,
            "trial key*limited to",
        ),
        unless=("per minute*", "per second*", "rate limit*per min*", "concurren*", "*invalid api key"),
        scope=Scope.KEY,
        fixed=True,
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

ACCESS = (
    Row(
        "text-scope",
        Cause.PERMISSION_DENIED,
        message=(
            "missing scope*",
            "insufficient permission*",
            "(region|country|territory|location)*(not supported|unsupported|not available|not allowed|restricted)",
            "not (available|supported) in your (country|region|location)*",
            "(only|not) authorized for use with*",
            "only allow*client*",
            "(ip|ip address|network)*(not allowed|not authorized|not in*(whitelist|allowlist)|restricted|not permitted)",
            "(virtual network|firewall rules)*",
            "upgrade to (plus|pro|max|a paid)*",
        ),
        unless=("account*(terminated|banned|suspended|disabled)*",),
    ),
    Row(
        "text-scope-zh",
        Cause.PERMISSION_DENIED,
        message=("*(网段|白名单|地区|区域|ip)*(使用|限制|不支持|不在|不允许|禁止|受限)", "*(无权访问|无权使用)*分组"),
        unless=("*模型", "*并发", "*频率", "*次数"),
    ),
    Row(
        "text-resource-id",
        Cause.BAD_REQUEST,
        message=(
            "previous response*not found",
            "(no response|no conversation|no file|no container|no such file)*(found|exist)*",
            "(response|conversation|file|container|item|thread|cached content|cachedcontent) with id*not found",
            "no tool (call|output) found*",
        ),
        reason="unknown_id",
        statuses=(400, 404, 0),
    ),
    Row(
        "text-model",
        Cause.MODEL_UNAVAILABLE,
        message=(
            "(model|models|models/*|deployment|engine)*(not found|does not exist|do not exist|not exist|no longer supported"
            "|no longer available|decommissioned|is deprecated|has been deprecated|has been retired|has been removed)",
            "(model|models) *(is|are|was) not (supported|enabled|activated|allowed|permitted|accessible|open|valid|recognized)",
            "(not found the|unknown|no such|invalid|unsupported|unrecognized) (model|deployment)*",
            "not a valid model*",
            "(not have|no|without|denied|lacks|not granted) (access to|permission for|permission to use|permission to access)"
            "*(model|deployment)",
            "not activated the model",
            "model access*(denied|not enabled)*",
            "no (available |)(channel|channels|endpoint|endpoints|deployment|deployments|provider|providers)"
            "*(found|for|available|model|support)*",
            "on demand throughput is not supported",
            "deployment for this resource does not exist",
            "endpoint*(closed or|does not exist|not found)*",
            "not authorized to (access|use) this model",
            "(not allowed|not permitted) to (access|use)*model",
        ),
        unless=("*temporarily*", "*at capacity*", "*overloaded*", "(field|parameter) model is required"),
        statuses=(4, 5, 0),
    ),
    Row(
        "text-model-busy",
        Cause.MODEL_UNAVAILABLE,
        message=("(model|models) *(is|are) (not available|unavailable|disabled|not accessible)",),
        unless=("*temporarily*", "*at capacity*", "*overloaded*", "*currently*", "*try again*", "*right now*"),
        statuses=(400, 403, 404, 410, 422),
    ),
    Row(
        "text-model-zh",
        Cause.MODEL_UNAVAILABLE,
        message=(
            "*模型*(不存在|未找到|找不到|不可用|已下线|下架|未开通|未开放|未授权|无权|不支持|无可用渠道|已停用|未启用|可用渠道失败)",
            "*(无权|没有权限|未开通|未授权|无可用|不支持|暂未开放|找不到|不存在|暂不支持)*(模型|渠道)",
            "*(无可用渠道|无可用的渠道|没有可用渠道|可用渠道失败)",
            "*套餐*(未开放|不支持|不包含)",
        ),
        unless=("*参数*不能为空", "*繁忙", "*稍后再试", "*负载"),
    ),
    Row(
        "text-auth",
        Cause.AUTH_INVALID,
        message=(
            "(invalid|incorrect|wrong|bad|expired|missing|unknown|revoked|malformed|disabled) "
            "(x |openai |anthropic |gemini |google |)" + _KEY,
            "(invalid|incorrect|wrong|bad|expired|missing|unknown|revoked|no) "
            "(auth|authentication|authorization|credential|credentials|token|login|bearer|signature|subscription key)*",
            _KEY + " *(is |was |has |are |or ak/sk in the request |)(not |been |)"
            "(valid|invalid|expired|revoked|found|missing or invalid|incorrect|disabled|unknown|required)",
            "api key (not valid|not found|expired|invalid|missing|required|disabled|revoked)*",
            "invalid authentication*",
            "authentication (fails|failed|failure|error|required|is required|credentials)*",
            "(unauthorized|unauthenticated|login fail|not logged in|please log in)*",
            "(oauth |access |security |session |)token*(has expired|is expired|expired|is invalid|invalidated|has been revoked)",
            "user not found*",
            "must be a member of an organization*",
            "missing (api key|bearer|authorization)*",
            "did not provide an api key*",
            "please (pass|provide|carry)*(valid |)(api key|api secret key|token)*",
        ),
        unless=("*not authorized for use with*", "missing scope*", "invalid token count*", "*max tokens*"),
        statuses=(400, 401, 403, 0),
    ),
    Row(
        "text-auth-zh",
        Cause.AUTH_INVALID,
        message=(
            "*(无效|非法|错误|不正确|未提供|失效|过期|不存在|缺少)*(令牌|密钥|api key|apikey|access token|token|凭证|鉴权)",
            "*(令牌|密钥|api key|apikey|token|凭证)*(无效|非法|错误|不正确|失效|过期|不存在|状态不可用|未提供|为空)",
            "*(身份验证|鉴权|认证|身份认证|登录)*(失败|错误|无效|过期|未通过)",
            "*(未登录|未授权访问)",
        ),
        unless=("*无可用凭证", "*模型", "*网段", "*超长", "*上限", "*token 数", "*token数"),
        statuses=(400, 401, 403, 0),
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
            "*(请求数限制|总请求数限制|请求过于频繁|请求频繁|请求过多|频率过高|并发数过高|并发*(超|过高|上限|限制)|限流|限速)",
            "*(速率|频率|请求数|并发)*(限制|超限|超过|过高|上限)",
            "*(每分钟|每秒|分钟内)*(最多|限制|上限|次)",
        ),
    ),
)

TEXTS = BANNED + CONTENT + VALIDATION + MONEY + QUOTAS + ACCESS + BUSY
