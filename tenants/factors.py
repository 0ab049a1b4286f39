"""Second factors: time-based codes (RFC 6238) of an authenticator app, and recovery codes for when it is lost."""

import secrets
from datetime import datetime

import pyotp
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from tenants.core.credentials import digest_of
from tenants.login_models import RecoveryCode, SecondFactor
from tenants.services import audit, installation_secret

ISSUER = "Pointsman"
RECOVERY_HASH = "recovery-code-hash"
RECOVERY_CODES = 10
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is taken for another
_CODE_LENGTH = 10  # 49 bits
_WINDOW = 1  # steps of 30 s by which clocks may differ


def factor_of(user: AbstractBaseUser) -> SecondFactor | None:
    """Return a person's confirmed second factor."""
    return SecondFactor.objects.filter(user_id=user.pk, confirmed__isnull=False).first()


def begin(user: AbstractBaseUser) -> SecondFactor:
    """Make a secret that counts for nothing until a code of it confirms it; the one begun before is forgotten."""
    SecondFactor.objects.filter(user_id=user.pk, confirmed=None).delete()
    factor, _made = SecondFactor.objects.get_or_create(user_id=user.pk, defaults={"secret": pyotp.random_base32()})
    return factor


def address_of(factor: SecondFactor) -> str:
    """Return what the QR code says: otpauth://totp/…"""
    return pyotp.TOTP(factor.secret).provisioning_uri(name=factor.user.get_username(), issuer_name=ISSUER)


@transaction.atomic
def confirm(factor: SecondFactor, code: str, now: datetime) -> list[str] | None:
    """Switch a second factor on and return its recovery codes; None when the code is wrong."""
    if not _is_app_code(factor, code, now):
        return None
    if not SecondFactor.objects.filter(pk=factor.pk, confirmed=None).update(confirmed=now):
        return None
    audit(user=factor.user, action="second_factor_on", target=factor.user, tenant=None)
    return renew_codes(factor)


def is_right(factor: SecondFactor, code: str, now: datetime) -> bool:
    """Take a code of the app or a recovery code. Each is taken once, also by two processes at a time."""
    typed = "".join(code.split()).replace("-", "").lower()
    if typed.isdigit():
        return _is_app_code(factor, typed, now)
    rows = RecoveryCode.objects.filter(factor=factor, digest=_digest(typed))
    if not rows.delete()[0]:
        return False
    audit(user=factor.user, action="recovery_code_used", target=factor.user, tenant=None)
    return True


@transaction.atomic
def renew_codes(factor: SecondFactor) -> list[str]:
    """Replace the recovery codes; the new ones are known here and never again."""
    RecoveryCode.objects.filter(factor=factor).delete()
    codes = ["".join(secrets.choice(_LETTERS) for _ in range(_CODE_LENGTH)) for _ in range(RECOVERY_CODES)]
    RecoveryCode.objects.bulk_create([RecoveryCode(factor=factor, digest=_digest(code)) for code in codes])
    half = _CODE_LENGTH // 2
    return [f"{code[:half]}-{code[half:]}" for code in codes]


@transaction.atomic
def remove(*, user: AbstractBaseUser, by: AbstractBaseUser | None) -> bool:
    """Switch a person's second factor off. `by` None = on the command line. False when there was none."""
    gone = SecondFactor.objects.filter(user_id=user.pk).delete()[0]
    if gone:
        audit(user=by, action="second_factor_off", target=user, tenant=None)
    return bool(gone)


def _is_app_code(factor: SecondFactor, code: str, now: datetime) -> bool:
    try:
        step = pyotp.TOTP(factor.secret).verify_and_get_timecode(code, for_time=now, valid_window=_WINDOW)
    except pyotp.OTPVerificationError:
        return False
    # Compare and set: the second of two who come with the same code finds it used.
    return bool(SecondFactor.objects.filter(pk=factor.pk, last_step__lt=step).update(last_step=step))


def _digest(code: str) -> str:
    return digest_of(code, installation_secret(RECOVERY_HASH))
