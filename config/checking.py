"""What check_config finds: in the settings and the database as they are, or in a file."""

from django.core import checks

from config.declarative.exporting import export_document
from config.declarative.inspection import Inspection
from config.declarative.judging import judge
from config.declarative.kinds import UPSTREAM_KEY
from config.declarative.reading import read_document
from config.declarative.resolving import judge_hosts, no_lookup
from config.declarative.shapes import Tree, label
from config.declarative.stored import read_stored
from keys.models import UpstreamKey
from tenants.core.credentials import malformed
from tenants.encryption import UndecryptableError
from tenants.models import InstallationSecret


def check_settings(inspection: Inspection) -> None:
    """Report what Django's checks and config/checks.py say, one line each."""
    for message in checks.run_checks():
        lines = inspection.errors if message.is_serious() else inspection.warnings
        lines.append(" ".join(f"{message.msg} {message.hint or ''}".split()))


def check_database(inspection: Inspection) -> None:
    """Hold the stored rows to the rules of the file; nothing is looked up in the network."""
    stored = read_stored(None, inspection)
    labelled = Inspection(labelled=True)
    read_document(export_document(), labelled)
    judge_hosts(labelled, no_lookup, stored=True)
    inspection.errors += labelled.errors
    inspection.warnings += labelled.warnings
    judge(stored, [row.name for row in stored.under((), "tenants").values()], inspection)
    _check_secrets(stored, inspection)


def _check_secrets(stored: Tree, inspection: Inspection) -> None:
    """Open every secret that serving needs: a wrong encryption key must show before the first call."""
    try:
        list(InstallationSecret.objects.all())
        held = dict(UpstreamKey.objects.values_list("pk", "secret"))
    except UndecryptableError as exc:
        inspection.at().error(str(exc))
        return
    for row in stored:
        if row.kind is UPSTREAM_KEY and row.pk in held and (problem := malformed(held[row.pk])):
            inspection.at(f"{label(row.path)}.secret").error(problem)
