"""Every setting. Each environment variable is read once, here; README and .env.example explain them.

What does not fit together is refused by config/checks.py.
"""

from functools import partial
from pathlib import Path

from cryptography.fernet import Fernet
from django.core.management.utils import get_random_secret_key
from django.utils.translation import gettext_lazy as _

from config import private_upstreams, secret_files, variables

BASE_DIR = Path(__file__).resolve().parent.parent
variables.env.read_env(BASE_DIR / ".env")

# --- where and how it runs ---

POINTSMAN_HOST = variables.text("POINTSMAN_HOST", "127.0.0.1")
POINTSMAN_PORT = variables.parsed("POINTSMAN_PORT", "8000", variables.whole_number(0, 65535))  # 0 = any free one
# Where people reach the admin; mails link there.
POINTSMAN_PUBLIC_URL = variables.parsed("POINTSMAN_PUBLIC_URL", "", variables.web_address)
POINTSMAN_WORKERS = variables.parsed("POINTSMAN_WORKERS", "1", variables.whole_number(1, 64))
POINTSMAN_DATA = (BASE_DIR / variables.text("POINTSMAN_DATA", "data")).resolve()
POINTSMAN_DATA.mkdir(mode=0o700, parents=True, exist_ok=True)
POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = variables.parsed(
    "POINTSMAN_ALLOW_PRIVATE_UPSTREAMS", "off", private_upstreams.parse
)
POINTSMAN_REQUIRE_TOTP = variables.parsed("POINTSMAN_REQUIRE_TOTP", "off", variables.switch)
# Proxies in front whose X-Forwarded-For and X-Forwarded-Proto are believed: addresses and networks.
POINTSMAN_TRUSTED_PROXIES = variables.parsed("POINTSMAN_TRUSTED_PROXIES", "127.0.0.1,::1", variables.networks)
POINTSMAN_METRICS_TOKEN = variables.text("POINTSMAN_METRICS_TOKEN")
REDIS_URL = variables.text("REDIS_URL")
POINTSMAN_EMBEDDED = not REDIS_URL

# --- secrets ---

SECRET_KEY_FILE = POINTSMAN_DATA / "secret.key"
SECRET_KEY = variables.text("SECRET_KEY") or secret_files.read_or_create(SECRET_KEY_FILE, get_random_secret_key)
ENCRYPTION_KEYS_FILE = POINTSMAN_DATA / "encryption.keys"
POINTSMAN_ENCRYPTION_KEYS = variables.parsed("POINTSMAN_ENCRYPTION_KEYS", "", variables.fernet_keys)  # newest first
if not POINTSMAN_ENCRYPTION_KEYS:
    POINTSMAN_ENCRYPTION_KEYS = variables.fernet_key_lines(
        ENCRYPTION_KEYS_FILE, secret_files.read_or_create(ENCRYPTION_KEYS_FILE, lambda: Fernet.generate_key().decode())
    )

# --- database, queue, mail ---

DATABASES = {
    "default": variables.parsed(
        "DATABASE_URL",
        f"sqlite:///{POINTSMAN_DATA / 'pointsman.sqlite3'}",
        partial(variables.database, folder=BASE_DIR),
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_QUEUE_FOLDERS = {name: POINTSMAN_DATA / "queue" / name for name in ("messages", "control")}
CELERY_BROKER_URL = variables.text("CELERY_BROKER_URL", REDIS_URL or "filesystem://localhost//")
if CELERY_BROKER_URL.startswith("filesystem:"):
    for _folder in _QUEUE_FOLDERS.values():
        _folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object] = {
        "data_folder_in": str(_QUEUE_FOLDERS["messages"]),
        "data_folder_out": str(_QUEUE_FOLDERS["messages"]),
        "control_folder": str(_QUEUE_FOLDERS["control"]),
        "polling_interval": 0.15,
    }
else:
    CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": "pointsman:", "socket_connect_timeout": 2}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BEAT_SCHEDULE_FILENAME = str(POINTSMAN_DATA / "beat-schedule")
CELERY_TASK_DEFAULT_QUEUE = "pointsman"
CELERY_TASK_IGNORE_RESULT = True
# A task is a nudge and the row is the queue: when the broker is down the caller goes on, a sweep finds the row.
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1

_mail = variables.parsed("EMAIL_URL", "consolemail://", variables.mail)
EMAIL_BACKEND: str = _mail["EMAIL_BACKEND"]
EMAIL_HOST: str = _mail["EMAIL_HOST"] or "localhost"
EMAIL_PORT: int = _mail["EMAIL_PORT"]
EMAIL_HOST_USER: str = _mail["EMAIL_HOST_USER"] or ""
EMAIL_HOST_PASSWORD: str = _mail["EMAIL_HOST_PASSWORD"] or ""
EMAIL_USE_TLS: bool = _mail["EMAIL_USE_TLS"]
EMAIL_USE_SSL: bool = _mail["EMAIL_USE_SSL"]
EMAIL_FILE_PATH: str = _mail["EMAIL_FILE_PATH"]
# Unset, mails are printed to the log: that is no delivery, and the admin says so.
POINTSMAN_MAIL_CONFIGURED = not EMAIL_BACKEND.endswith("console.EmailBackend")
EMAIL_TIMEOUT = 10  # seconds
DEFAULT_FROM_EMAIL = variables.text("DEFAULT_FROM_EMAIL", "pointsman@localhost")
OPS_EMAILS = variables.parsed("OPS_EMAILS", "", variables.items)

# --- Django ---

INSTALLED_APPS = [
    "config",
    "proxy",
    "routing",
    "billing",
    "keys",
    "tenants",
    "config.admin_app.PointsmanAdmin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "config.headers.SecurityHeaders",
    "config.headers.PlainQuery",
    "config.headers.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "config.zone.PersonZone",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "config.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "admin:login"

LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LANGUAGE_CODE = variables.parsed("POINTSMAN_LANGUAGE", "en", variables.one_of([code for code, _name in LANGUAGES]))
# The person's choice, else the browser's, else this.
LANGUAGE_COOKIE_NAME = "pointsman_language"
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600  # seconds
LANGUAGE_COOKIE_SAMESITE = "Lax"
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = ["config.formats"]
# In pages only: forms, JSON, CSV and addresses write plain digits.
USE_THOUSAND_SEPARATOR = True
TIME_ZONE = "UTC"
USE_TZ = True

# Files come straight from the apps' static folders: nothing to collect before a start.
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False

# --- hardening ---

DEBUG = False
# No mail is built from the Host header: links in mails lead to the address that an operator configures, and a page on
# another host name has neither the session cookie nor a matching Origin.
ALLOWED_HOSTS = ["*"]
# The Secure flag follows the request (config/headers.py): a plain-http loopback start must be able to log in.
SESSION_COOKIE_NAME = "pointsman_session"
SESSION_COOKIE_AGE = 12 * 3600  # seconds
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_NAME = "pointsman_csrf"
CSRF_COOKIE_SAMESITE = "Strict"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_HSTS_SECONDS = variables.parsed("POINTSMAN_HSTS_S", "0", variables.whole_number(0, 10 * 365 * 24 * 3600))
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 1024 * 1024  # bytes; the largest body that clients may send

# --- API ---

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.LimitOffsetPagination",
    "PAGE_SIZE": 100,
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Pointsman",
    "DESCRIPTION": "Self-hosted LLM gateway",
    "VERSION": "0.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAdminUser"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

# --- log ---

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        # Django's own set-up would mail every error to ADMINS and print requests in its own format.
        "django": {"handlers": [], "level": "WARNING", "propagate": True},
        "django.request": {"level": "ERROR"},  # a refused page is no news, least of all with a traceback
        **{name: {"level": "INFO"} for name in ("config", "proxy", "routing", "billing", "keys", "tenants")},
    },
}
