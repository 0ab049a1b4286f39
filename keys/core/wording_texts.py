"""Rules on the wording of messages, English and Chinese.

Matched against `Evidence.wording`: lower case, no quoted parts, punctuation of code (`_-()`) as blanks, and
"n't" as " not". Rows go from what is surest to what is vaguest; the position of a row is part of its meaning.
"""

from keys.core.outcome import Cause, Scope
from keys.core.wording import WordingRule as Row

_HOLDER = "(account|organization|organisation|consumer|user|workspace|credential|subscription key|billing account)"
_KEY = "(api key|apikey|api token|access key|access token|auth token|authentication token|bearer token|secret key)"
_GONE = "(suspended|disabled|deactivated|banned|revoked|terminated|blocked|locked|restricted|closed|frozen|deleted)"

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
            "(prompt|input|conversation|messages|request|inputs) (text |length |)(is|are) too "
            "(long|large for*context)*",
            "(longer|larger|more|greater) than the (maximum|max)*tokens",
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
            "(api key|key|token)*(has been|is|was) (reported as |)"
            "(leaked|compromised|revoked|disabled|suspended|banned)",
            _HOLDER + " (suspended|disabled|deactivated|banned|blocked|terminated)",
        ),
        unless=(
            "rate limit*",
            "model*disabled for*",
            "(unpaid|overdue|insufficient|balance|billing|payment|invoices)*",
        ),
    ),
    Row(
        "text-banned-zh",
        Cause.AUTH_INVALID,
        message=(
            "*(用户|账户|账号|帐号|帐户|组织|密钥|令牌|api key|apikey)*"
            "(封禁|禁用|停用|冻结|吊销|注销|封号|锁定|被封|拉黑)",
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
            "(violate|violates|violated|violating|violation)*(guidelines|policy|policies|terms|rules)",
            "content exists risk",
            "safety check*",
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
            "(ip|ip address|network)*"
            "(not allowed|not authorized|not in*(whitelist|allowlist)|restricted|not permitted)",
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
            "(model|models|models/*|deployment|engine)*(not found|does not exist|do not exist|not exist"
            "|no longer (supported|available)|decommissioned|is deprecated|has been (deprecated|retired|removed))",
            "(model|models) *(is|are|was) not "
            "(supported|enabled|activated|allowed|permitted|accessible|open|valid|recognized)",
            "(not found the|unknown|no such|invalid|unsupported|unrecognized) (model|deployment)*",
            "(model|models) not (supported|available|enabled|allowed|found|activated|permitted|open)*",
            "not a valid model*",
            "model (identifier|id|name|code) *(is invalid|is not valid|invalid|unknown)",
            "(unknown|no) provider for model*",
            "^model disabled",
            "(not have|no|without|denied|lacks|not granted) "
            "(access to|permission for|permission to use|permission to access)"
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
            "*模型*(不存在|未找到|找不到|不可用|已下线|下架|未开通|未开放|未授权|无权|不允许|不支持|无可用渠道|已停用|未启用|可用渠道失败)",
            "*(无权|不允许|没有权限|未开通|未授权|无可用|不支持|暂未开放|找不到|不存在|暂不支持)*(模型|渠道)",
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
            "(oauth |access |security |session |)token*"
            "(has expired|is expired|expired|is invalid|invalidated|has been revoked)",
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
            "*(无效|非法|错误|不正确|未提供|失效|过期|不存在|缺少)*"
            "(令牌|密钥|api key|apikey|access token|token|凭证|鉴权)",
            "*(令牌|密钥|api key|apikey|token|凭证)*(无效|非法|错误|不正确|失效|过期|不存在|状态不可用|未提供|为空)",
            "*(身份验证|鉴权|认证|身份认证|登录)*(失败|错误|无效|过期|未通过)",
            "*(未登录|未授权访问)",
        ),
        unless=("*无可用凭证", "*模型", "*网段", "*超长", "*上限", "*token 数", "*token数"),
        statuses=(400, 401, 403, 0),
    ),
)
