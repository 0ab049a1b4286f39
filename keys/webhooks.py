"""Calls to webhooks, guarded like every call outside the hot path. Of the answer only the status is read."""

from collections.abc import Mapping

from keys.outbound import NEVER_SENT, fetch, is_success
from tenants.delivery import Sent

TIMEOUT_S = 10.0


def post(url: str, headers: Mapping[str, str], body: bytes) -> Sent:
    """Send one body. Only a 2xx answer is a success; never raises for what the other side does."""
    answer = fetch("POST", url, headers, body, body_max=0, timeout_s=TIMEOUT_S)
    if answer.status is not None:
        done = is_success(answer.status)
        return Sent(ok=done, refused=not done, error="" if done else f"answered {answer.status}")
    if answer.fault in NEVER_SENT:
        return Sent(refused=True, error=answer.why, hopeless=answer.fault == "blocked_address")
    return Sent(error=f"not known whether it arrived: {answer.why}")
