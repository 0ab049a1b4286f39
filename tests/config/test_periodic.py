"""Every periodic task exists under its name and does no harm on an empty database, twice."""

import pytest

from config.celery import PERIODIC, app


@pytest.mark.parametrize("name", PERIODIC)
def test_a_periodic_task_is_registered_and_idle_without_work(name, db):
    app.loader.import_default_modules()
    task = app.tasks[PERIODIC[name]["task"]]
    for _ in range(2):
        task.run()
