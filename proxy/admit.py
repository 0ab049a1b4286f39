"""Room one: who asks?"""

from datetime import datetime

from proxy.core.call import Admitted, Received
from proxy.core.errors import Code, Fault, Refused
from proxy.core.headers import presented
from routing.core.table import GatewayKeyInfo, RoutingTable
from tenants.core.credentials import digest_of

_NOT_READY = Fault(Code.NOT_READY, "The gateway cannot read its configuration yet; try again shortly.", wait_s=2)


def admit(received: Received, table: RoutingTable | None, hash_key: bytes, *, table_is_current: bool) -> Admitted:
    """Find the gateway key among all credentials that the client sent. Raises Refused.

    A key that the table does not know is only then an unknown key when the table is current: while the database is
    down it may be new.
    """
    if table is None:
        raise Refused(_NOT_READY)
    offered = presented(received.headers, received.query_key)
    for credential in offered:
        key = table.gateway_keys.get(digest_of(credential, hash_key))
        if key is not None:
            return _admitted(received, table, key)
    if not table_is_current:
        raise Refused(_NOT_READY)
    if not offered:
        raise Refused(
            Fault(
                Code.INVALID_GATEWAY_KEY,
                "No gateway key was sent. Send yours as 'Authorization: Bearer sk-pm-…', x-api-key or x-goog-api-key.",
            )
        )
    raise Refused(Fault(Code.INVALID_GATEWAY_KEY, "This gateway key is not known here."))


def _admitted(received: Received, table: RoutingTable, key: GatewayKeyInfo) -> Admitted:
    line = table.lines[key.line_id]
    tenant = table.tenants[line.tenant_id]
    if not key.enabled:
        raise Refused(Fault(Code.INVALID_GATEWAY_KEY, "This gateway key has been revoked."))
    if _is_over(key.expires, received.at):
        raise Refused(Fault(Code.INVALID_GATEWAY_KEY, "This gateway key has expired."))
    if not line.enabled or not tenant.enabled:
        raise Refused(Fault(Code.INVALID_GATEWAY_KEY, "The business line of this gateway key is switched off."))
    return Admitted(received, table, tenant, line, key)


def _is_over(expires: datetime | None, now: datetime) -> bool:
    return expires is not None and expires <= now
