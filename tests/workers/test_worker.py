"""A real worker on a real queue: what crosses it, what comes back, and how it ends."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from celery import Celery
from django.conf import settings as django_settings

from messaging.settings import ConfigError, Settings
from tests.support.waiting import eventually_sync
from tests.support.worker_broker import WorkerBroker
from tests.workers.valkey_server import Server
from workers.app import make_app
from workers.environment import Environment
from workers.models import TaskRun
from workers.process import Beat, Worker
from workers.queue import queue_configuration, queue_url
from workers.schedule import PREFIX, ensure_schedule
from workers.task_catalog import COLLECT_USAGE, EXPIRE_MESSAGES, TASKS


def test_a_message_past_its_ttl_goes_when_the_task_is_sent(celery_app: Celery, sender: Celery, broker: WorkerBroker) -> None:
    broker.add("persistent://acme/orders/new", [10, 61])
    sent = sender.send_task(EXPIRE_MESSAGES, ignore_result=False)
    # The result crosses the queue to another application: without `set_default` in the worker it would go nowhere, in silence.
    assert sent.get(timeout=10, disable_sync_subtasks=False)["expired_entries"] == 1
    assert broker.messages() == 1
    assert TaskRun.objects.get(task_id=sent.id).outcome == "succeeded"


def test_the_same_message_twice_is_worked_off_once(celery_app: Celery, sender: Celery, broker: WorkerBroker) -> None:
    first = sender.send_task(COLLECT_USAGE, task_id="one-id", ignore_result=False)
    assert first.get(timeout=10, disable_sync_subtasks=False)["outcome"] == "succeeded"
    first.forget()
    again = sender.send_task(COLLECT_USAGE, task_id="one-id", ignore_result=False)
    assert again.get(timeout=10, disable_sync_subtasks=False) == {"outcome": "done before"}
    assert [method for method, _ in broker.calls] == ["usage.flush"]


class Malice:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickled_message_is_not_opened(celery_app: Celery, sender: Celery, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    sender.send_task(COLLECT_USAGE, kwargs={"x": Malice(planted)}, serializer="pickle", task_id="malice")
    # What comes after it is worked off, so it was taken and thrown away.
    assert (
        sender.send_task(COLLECT_USAGE, ignore_result=False).get(timeout=10, disable_sync_subtasks=False)["outcome"] == "succeeded"
    )
    assert not planted.exists()
    assert not TaskRun.objects.filter(task_id="malice").exists()


def test_tasks_are_late_acknowledged_and_speak_json(queue: Settings) -> None:
    conf = make_app(queue).conf
    assert conf.task_acks_late and conf.task_reject_on_worker_lost
    assert list(conf.accept_content) == ["json"] and conf.task_serializer == conf.result_serializer == "json"
    assert conf.worker_prefetch_multiplier == 1
    assert conf.broker_transport_options["visibility_timeout"] > queue.usage_job_timeout_s


def test_beat_sends_what_is_due(celery_app: Celery, queue: Settings, settings_of: Callable[..., Settings]) -> None:
    ensure_schedule(settings_of(expiry_interval_s=1))
    beat = Beat(celery_app)
    beat.start()
    try:
        eventually_sync(lambda: TaskRun.objects.filter(name=EXPIRE_MESSAGES, outcome="succeeded").exists(), timeout_s=15)
        assert not TaskRun.objects.exclude(name=EXPIRE_MESSAGES).exists()
    finally:
        beat.stop()
        assert beat.join(5)


@pytest.mark.django_db
def test_the_schedule_follows_the_settings_and_keeps_what_an_administrator_chose(settings_of: Callable[..., Settings]) -> None:
    from django_celery_beat.models import PeriodicTask, PeriodicTasks

    ensure_schedule(settings_of())
    rows = {row.task: row for row in PeriodicTask.objects.filter(name__startswith=PREFIX)}
    assert {task: (row.interval.every, row.enabled) for task, row in rows.items()} == {
        entry.name: (getattr(settings_of(), entry.interval), True) for entry in TASKS if entry.interval
    }
    PeriodicTask.objects.filter(task=EXPIRE_MESSAGES).update(enabled=False)
    PeriodicTask.objects.create(name=f"{PREFIX}of an earlier release", task="workers.gone", interval=rows[EXPIRE_MESSAGES].interval)
    ensure_schedule(settings_of(expiry_interval_s=7))
    row = PeriodicTask.objects.get(task=EXPIRE_MESSAGES)
    assert (row.interval.every, row.enabled, row.expire_seconds) == (7, False, 7)
    assert not PeriodicTask.objects.filter(task="workers.gone").exists()
    changed_at = PeriodicTasks.last_change()
    ensure_schedule(settings_of(expiry_interval_s=7))
    assert PeriodicTask.objects.filter(name__startswith=PREFIX).count() == len(rows)
    assert PeriodicTasks.last_change() == changed_at  # beat need not read it again


def test_an_idle_consumer_is_not_ended_by_a_socket_timeout(queue: Settings) -> None:
    """redis-py 8 gives every socket a timeout of 5 s, which ends a Channels consumer that waits longer. So: the version below it,
    and a timeout of our own choice wherever a connection is made."""
    assert int(importlib.metadata.version("redis").split(".")[0]) < 8
    options = queue_configuration(queue)
    assert options["broker_transport_options"]["socket_timeout"] == options["redis_socket_timeout"] == 30.0
    layer = django_settings.CHANNEL_LAYERS["default"]
    if "redis" in layer["BACKEND"].lower():
        assert layer["BACKEND"].endswith("RedisPubSubChannelLayer")
        assert all(host["socket_timeout"] is None for host in layer["CONFIG"]["hosts"])


def test_the_queue_is_where_the_settings_say(settings_of: Callable[..., Settings], tmp_path: Path) -> None:
    assert queue_url(settings_of(redis_url="redis://h:1/2")) == "redis://h:1/2"
    assert queue_url(settings_of(redis_url="unix:///s.sock")) == "redis+socket:///s.sock"
    assert queue_url(settings_of()) == "filesystem://"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "valkey.sock").touch()
    assert queue_url(settings_of()) == f"redis+socket://{tmp_path}/run/valkey.sock"
    with pytest.raises(ConfigError, match="redis_url"):
        queue_url(settings_of(redis_url="http://user:secret@h"))


def test_without_any_server_tasks_cross_files(
    transactional_db: None, settings_of: Callable[..., Settings], broker: WorkerBroker
) -> None:
    app = make_app(settings_of(), Environment(settings_of(), broker))
    worker = Worker(app)
    worker.start()
    try:
        assert worker.started.wait(20), worker.failed
        sent = make_app(settings_of()).send_task(COLLECT_USAGE)
        eventually_sync(lambda: TaskRun.objects.filter(task_id=sent.id, outcome="succeeded").exists())
    finally:
        worker.stop()
        assert worker.join(10)
        app.close()


# Celery announces a changed default at each loss of a connection, also to those who chose.
@pytest.mark.filterwarnings("ignore::celery.exceptions.CPendingDeprecationWarning")
def test_a_queue_that_dies_and_comes_back_is_used_again(
    transactional_db: None, own_server: Server, settings_of: Callable[..., Settings], broker: WorkerBroker
) -> None:
    """The supervisor starts it again; worker and beat go on by themselves."""
    settings = settings_of(redis_url=f"unix://{own_server.socket}", usage_interval_s=1)
    app = make_app(settings, Environment(settings, broker))
    worker, beat = Worker(app), Beat(app)
    ensure_schedule(settings)
    worker.start()
    beat.start()

    def collected() -> int:
        return TaskRun.objects.filter(name=COLLECT_USAGE, outcome="succeeded").count()

    try:
        eventually_sync(lambda: collected() >= 1, timeout_s=20)
        own_server.kill()
        own_server.start()
        before = collected()
        eventually_sync(lambda: collected() > before, timeout_s=30)
        assert not worker.ended
    finally:
        beat.stop()
        worker.stop()
        assert beat.join(10) and worker.join(10)
        app.close()


@pytest.mark.timeout(120)
def test_the_process_says_when_it_is_ready_and_ends_cleanly(valkey_socket: Path, tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MAGNETAR_", "DJANGO_"))}
    variables |= {"MAGNETAR_DATA_DIR": str(tmp_path), "MAGNETAR_REDIS_URL": f"redis+socket://{valkey_socket}?virtual_host=1"}
    prepare = (
        "from messaging.identity import create_secrets; from messaging.settings import load; create_secrets(load());"
        "import django; django.setup(); from django.core.management import call_command; call_command('migrate', verbosity=0)"
    )
    (tmp_path / "control").mkdir()
    subprocess.run(
        [sys.executable, "-c", prepare], env=variables | {"DJANGO_SETTINGS_MODULE": "controlplane.settings"}, check=True, timeout=60
    )
    ready = tmp_path / "run" / "worker.json"
    with (tmp_path / "log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "controlplane.worker"], env=variables, stdout=log, stderr=log, cwd="/"
        )
    try:
        eventually_sync(lambda: ready.exists() or child.poll() is not None, timeout_s=30)
        assert child.poll() is None, (tmp_path / "log").read_text()
        assert json.loads(ready.read_bytes()) == {"pid": child.pid}
        child.send_signal(signal.SIGTERM)
        assert child.wait(5) == 0, (tmp_path / "log").read_text()
        assert not ready.exists()
    finally:
        child.kill()
        child.wait()
