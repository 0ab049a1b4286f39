"""Read what a call used from a provider's answer, whole or streamed."""

from billing.core.tokens import NO_USAGE, Usage, UsageSource

__all__ = ["NO_USAGE", "Usage", "UsageSource"]
