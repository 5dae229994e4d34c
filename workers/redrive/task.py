"""Runs one redrive job until it is done, paused, or the worker ends. Each message goes to the target exactly once."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
from django.db import transaction

from messaging.adminrpc.methods import REDRIVE_MOVE, REDRIVE_PREPARE, REDRIVE_SCAN
from messaging.adminrpc.redrive import RedriveEdit, RedriveFilter, RedriveFound, RedriveMove, RedrivePrepare, RedriveScan
from messaging.errors import Conflict, InvalidValue, MagnetarError, NotAllowed, NotAuthorized, NotFound, NotReady, TopicNotFound
from messaging.json_types import converted
from messaging.protocol.names import parse_topic
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.carriers import Turn
from workers.environment import Environment, Stopping, StoppingWithProgress
from workers.redrive.destinations import Destination, destination
from workers.redrive.models import EDIT_DONE, WHY_CHARACTERS_MAX, RedriveJob, RedriveOutcome
from workers.runs import Renew, StepsOf

State = RedriveJob.State
MOVE_ENTRIES = 100
MOVE_BYTES = 1 << 20
OUTCOMES_OF_TENANT_MAX = 20_000  # that are kept: some 5 MiB
PACE_S = 1.0  # with a rate, a step is what a second allows
# What no retry helps against: somebody has to do something, and to resume the job.
FINAL = (Conflict, InvalidValue, NotAllowed, NotAuthorized, NotFound, TopicNotFound)


class _PlannedMove(msgspec.Struct, kw_only=True):
    """Of a step: what goes to one topic. `after`: the last position of that topic."""

    step: int
    target: str
    after: list[int]
    positions: list[list[int]]


def turn_of(job: str) -> Turn:
    with platform_scope():
        return Turn(RedriveJob.objects.filter(id=job).values_list("tenant_uid", flat=True).first() or "")


def redrive(environment: Environment, task_id: str, renew: Renew, job: str) -> StepsOf[dict[str, Any]]:
    """Safe to kill at any moment: a step is written down before it is begun, and the broker knows whether it was done. Others have
    the thread between two steps, and while it waits for its rate."""
    with platform_scope():
        row = RedriveJob.objects.filter(id=job).first()
        if row is None:
            return {"job": "it does not exist"}
        if not Tenant.objects.filter(name=row.tenant, uid=row.tenant_uid).exists():
            RedriveJob.objects.filter(id=job).update(state=State.FAILED, error="its tenant is gone")
            return {"job": "its tenant is gone"}
    begun, looked_at = row.moved, row.looked_at
    try:
        while _step(environment, renew, row, begun, row.looked_at > looked_at):
            yield PACE_S if row.rate else 0.0
    except FINAL as error:
        with platform_scope():
            RedriveJob.objects.filter(id=job, state=State.RUNNING).update(state=State.FAILED, error=error.message[:2000])
        return {"moved": row.moved - begun, "failed": error.message}
    except MagnetarError as error:
        with platform_scope():
            RedriveJob.objects.filter(id=job, state=State.RUNNING).update(error=error.message[:2000])
        if row.looked_at > looked_at:
            raise StoppingWithProgress(error.message) from error
        if isinstance(error, NotReady):
            raise Stopping(error.message) from error  # the job is not to blame: it waits for the broker, however long that takes
        raise
    with platform_scope():
        row.refresh_from_db(fields=["state"])
    return {"moved": row.moved - begun, "state": row.state}


@platform_scope()
def _step(environment: Environment, renew: Renew, job: RedriveJob, begun: int, comes_on: bool) -> bool:
    """Whether there is another."""
    if not _running(job):
        return False
    renew(comes_on=comes_on, moved=job.moved - begun, looked_at=job.looked_at)
    if job.pending is None:
        _plan(environment, job)
    _move(environment, job)
    return _running(job)


def _running(job: RedriveJob) -> bool:
    """Whether it is still to go on; somebody may have paused it."""
    job.refresh_from_db(fields=["state"])
    return job.state == State.RUNNING


def _plan(environment: Environment, job: RedriveJob) -> None:
    """Finds what moves next and writes it down."""
    page = environment.rpc.call(
        REDRIVE_SCAN,
        RedriveScan(
            topic=job.topic,
            subscription=job.subscription,
            owner=job.owner,
            tenant_uid=job.tenant_uid,
            **msgspec.structs.asdict(converted(job.filter, RedriveFilter)),
            ledger_id=job.ledger_id,
            entry_id=job.entry_id,
            make_subscription=True,
        ),
    )
    taken, whole = _portion(page.found, job.rate)
    # Where not all of a page moves in one step, the next one looks on behind the last that did.
    behind = (page.ledger_id, page.entry_id) if whole else (taken[-1].ledger_id, taken[-1].entry_id + 1)
    moves = _moves(environment, job, taken)
    job.pending = {
        "found": [msgspec.to_builtins(entry) for entry in taken],
        "moves": [msgspec.to_builtins(move) for move in moves],
        "behind": list(behind),
        "looked_at": page.looked_at if whole else taken[-1].looked_at or len(taken),
        "last": whole and page.done,
    }
    job.step += max(1, len(moves))
    job.save(update_fields=["pending", "step"])


def _moves(environment: Environment, job: RedriveJob, entries: list[RedriveFound]) -> list[_PlannedMove]:
    """One for each topic that some of `entries` go to. What cannot go where it came from is refused, and the others go on."""
    letters, by_target = parse_topic(job.topic), defaultdict[str, list[RedriveFound]](list)
    for entry in entries:
        target = Destination(job.target) if job.target else destination(letters, entry)
        entry.refused = entry.refused or target.why
        if not entry.refused:
            by_target[target.topic].append(entry)
    moves: list[_PlannedMove] = []
    for name, moving in by_target.items():
        step = job.step + 1 + len(moves)
        try:
            place = environment.rpc.call(REDRIVE_PREPARE, RedrivePrepare(target=name, owner=job.owner, step=step))
        except FINAL as error:
            if job.target:
                raise
            for entry in moving:
                entry.refused = error.message[:WHY_CHARACTERS_MAX]
            continue
        after = [place.ledger_id, place.entry_id]
        positions = [[entry.ledger_id, entry.entry_id] for entry in moving]
        moves.append(_PlannedMove(step=step, target=place.target, after=after, positions=positions))
    return moves


def _portion(entries: list[RedriveFound], rate: int) -> tuple[list[RedriveFound], bool]:
    """What goes in one step, and whether that is all of `entries`."""
    taken: list[RedriveFound] = []
    size = messages = 0
    for entry in entries:
        if taken and (
            len(taken) >= MOVE_ENTRIES
            or size + entry.size_bytes > MOVE_BYTES
            or (rate and messages + entry.messages > rate * PACE_S)
        ):
            return taken, False
        taken.append(entry)
        size, messages = size + entry.size_bytes, messages + (0 if entry.refused else entry.messages)
    return taken, True


def _move(environment: Environment, job: RedriveJob) -> None:
    pending = job.pending
    entries = converted(pending["found"], list[RedriveFound])
    gone: set[tuple[int, int]] = set()
    targets: dict[tuple[int, int], str] = {}
    edit = converted(job.edit, RedriveEdit) if job.edit else None
    for move in converted(pending["moves"], list[_PlannedMove]):
        moved = environment.rpc.call(
            REDRIVE_MOVE,
            RedriveMove(
                job=job.id,
                step=move.step,
                topic=job.topic,
                subscription=job.subscription,
                owner=job.owner,
                tenant_uid=job.tenant_uid,
                target=move.target,
                ledger_id=move.after[0],
                entry_id=move.after[1],
                positions=move.positions,
                edit=edit,
            ),
        )
        gone |= {(position[0], position[1]) for position in moved.gone}
        targets |= {(position[0], position[1]): move.target for position in move.positions}
    why = {
        at: entry.refused or ("acknowledged meanwhile" if at in gone else "")
        for at, entry in zip(map(_at, entries), entries, strict=True)
    }
    with transaction.atomic():
        _make_room(job, len(entries))
        RedriveOutcome.objects.bulk_create(
            RedriveOutcome(
                job=job,
                ledger_id=entry.ledger_id,
                entry_id=entry.entry_id,
                messages=entry.messages,
                key=entry.key,
                why=why[_at(entry)],
                target="" if why[_at(entry)] else targets.get(_at(entry), ""),
                step=job.step,
            )
            for entry in entries
        )
        left = [entry for entry in entries if why[_at(entry)]]
        job.moved += sum(entry.messages for entry in entries) - sum(entry.messages for entry in left)
        job.left += len(left)
        job.looked_at += pending["looked_at"]
        job.ledger_id, job.entry_id = pending["behind"]
        job.pending, job.error = None, ""
        job.save(update_fields=["moved", "left", "looked_at", "ledger_id", "entry_id", "pending", "error"])
        if pending["last"]:
            now = environment.now()
            done = {"edit": EDIT_DONE} if job.edit else {}
            RedriveJob.objects.filter(id=job.id, state=State.RUNNING).update(state=State.DONE, finished_at=now, **done)


def _make_room(job: RedriveJob, count: int) -> None:
    """The oldest outcomes of the tenant go, whichever of its jobs they are of."""
    kept = RedriveOutcome.objects.filter(job__tenant_uid=job.tenant_uid)
    beyond = kept.count() + count - OUTCOMES_OF_TENANT_MAX
    if beyond > 0:
        RedriveOutcome.objects.filter(id__in=list(kept.order_by("id").values_list("id", flat=True)[:beyond])).delete()


def _at(entry: RedriveFound) -> tuple[int, int]:
    return entry.ledger_id, entry.entry_id
