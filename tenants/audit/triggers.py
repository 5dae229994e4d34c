"""Triggers that make the database refuse a change of the audit log, whoever asks for it: an UPDATE of a record, a DELETE of one
that no checkpoint stands for, an INSERT in another place than the end.

Who owns the database can drop them; the chain and its signed heads show what was done then. On SQLite a migration that changes one
of these tables makes it anew, without its triggers, and has to `install` them again: a test notices.
"""

from __future__ import annotations

from typing import Any

RECORDS, CHECKPOINTS, HEADS = "tenants_auditrecord", "tenants_auditcheckpoint", "tenants_audithead"
_REFUSED = "the audit log is append-only"

_SQLITE = {
    "audit_record_update": f"BEFORE UPDATE ON {RECORDS} BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END",
    "audit_record_delete": (
        f"BEFORE DELETE ON {RECORDS} WHEN NOT EXISTS (SELECT 1 FROM {CHECKPOINTS} WHERE sequence >= OLD.id) "
        f"BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END"
    ),
    "audit_record_insert": (
        f"BEFORE INSERT ON {RECORDS} WHEN EXISTS (SELECT 1 FROM {RECORDS} WHERE id >= NEW.id) "
        f"BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END"
    ),
    "audit_checkpoint_update": f"BEFORE UPDATE ON {CHECKPOINTS} BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END",
    "audit_checkpoint_delete": f"BEFORE DELETE ON {CHECKPOINTS} BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END",
    "audit_head_update": f"BEFORE UPDATE ON {HEADS} BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END",
    "audit_head_delete": f"BEFORE DELETE ON {HEADS} BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END",
}

_POSTGRESQL_FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '{_REFUSED}' USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE OR REPLACE FUNCTION audit_record_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM {CHECKPOINTS} WHERE sequence >= OLD.id) THEN
    RAISE EXCEPTION '{_REFUSED}' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN OLD;
END $$;
CREATE OR REPLACE FUNCTION audit_record_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM {RECORDS} WHERE id >= NEW.id) THEN
    RAISE EXCEPTION '{_REFUSED}' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
"""
_POSTGRESQL = {
    "audit_record_update": (RECORDS, "BEFORE UPDATE", "ROW", "audit_refuse"),
    "audit_record_delete": (RECORDS, "BEFORE DELETE", "ROW", "audit_record_delete"),
    "audit_record_insert": (RECORDS, "BEFORE INSERT", "ROW", "audit_record_insert"),
    "audit_record_truncate": (RECORDS, "BEFORE TRUNCATE", "STATEMENT", "audit_refuse"),
    "audit_checkpoint_update": (CHECKPOINTS, "BEFORE UPDATE OR DELETE", "ROW", "audit_refuse"),
    "audit_checkpoint_truncate": (CHECKPOINTS, "BEFORE TRUNCATE", "STATEMENT", "audit_refuse"),
    "audit_head_update": (HEADS, "BEFORE UPDATE OR DELETE", "ROW", "audit_refuse"),
    "audit_head_truncate": (HEADS, "BEFORE TRUNCATE", "STATEMENT", "audit_refuse"),
}


def installing(vendor: str) -> list[str]:
    """The statements that make them; those that are there stay."""
    if vendor == "sqlite":
        return [f"CREATE TRIGGER IF NOT EXISTS {name} {body}" for name, body in _SQLITE.items()]
    return [
        _POSTGRESQL_FUNCTIONS,
        *(
            f"CREATE OR REPLACE TRIGGER {name} {when} ON {table} FOR EACH {each} EXECUTE FUNCTION {function}()"
            for name, (table, when, each, function) in _POSTGRESQL.items()
        ),
    ]


def removing(vendor: str) -> list[str]:
    if vendor == "sqlite":
        return [f"DROP TRIGGER IF EXISTS {name}" for name in _SQLITE]
    return [f"DROP TRIGGER IF EXISTS {name} ON {table}" for name, (table, *_) in _POSTGRESQL.items()]


def install(connection: Any) -> None:
    with connection.cursor() as cursor:
        for statement in installing(connection.vendor):
            cursor.execute(statement)


def missing(connection: Any) -> list[str]:
    """Names of those that the database lacks."""
    if connection.vendor == "sqlite":
        names, query = list(_SQLITE), "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    else:
        names, query = list(_POSTGRESQL), "SELECT tgname FROM pg_trigger WHERE tgenabled <> 'D'"
    with connection.cursor() as cursor:
        cursor.execute(query)
        there = {row[0] for row in cursor.fetchall()}
    return [name for name in names if name not in there]
