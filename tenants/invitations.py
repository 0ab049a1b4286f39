"""A person who is invited sets the password by a link that works once.

The link is Django's for a forgotten password: signed, it ends with its use, with the next login, and after
PASSWORD_RESET_TIMEOUT (three days).
"""

import logging
from smtplib import SMTPException

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import send_mail
from django.urls import reverse
from django.utils import translation
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext as _

logger = logging.getLogger(__name__)


def path_of(user: User) -> str:
    """Return the path of a new link; whoever has it sets the person's password."""
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    return reverse("admin:welcome", args=[uid, default_token_generator.make_token(user)])


def mail_link(*, user: User, url: str) -> bool:
    """Mail a link in the installation's language. False when mail is not set up, or the server refuses."""
    if not user.email or not settings.POINTSMAN_MAIL_CONFIGURED:
        return False
    with translation.override(settings.LANGUAGE_CODE):
        subject = _("Your account at Pointsman")
        text = _("Your user name is %(name)s. Set your password here, within three days:") % {"name": user.username}
    try:
        send_mail(subject, f"{text}\n\n{url}\n", settings.DEFAULT_FROM_EMAIL, [user.email])
    except (SMTPException, OSError) as problem:
        logger.warning("an invitation could not be mailed: %s", type(problem).__name__)
        return False
    return True
