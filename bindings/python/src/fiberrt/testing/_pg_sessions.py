# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the PostgreSQL fake does with statements: sessions with transactions, over a function of the test or SQLite."""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ._pg_protocol import Error

Handler = Callable[[str, Sequence[Any]], "tuple[Sequence[str], Sequence[Sequence[Any]]] | None"]

VERSION = "16.0"
SHOWN = {
    "server_version": VERSION, "standard_conforming_strings": "on", "transaction isolation level": "read committed",
    "transaction_isolation": "read committed", "timezone": "UTC", "client_encoding": "UTF8", "search_path": "public",
}  # fmt: skip

IDLE, IN_TRANSACTION, FAILED = b"I", b"T", b"E"

_COMMENTS = re.compile(r"^(\s+|--[^\n]*(\n|$)|/\*.*?\*/)+", re.S)
_FOR_UPDATE = re.compile(
    r"\s+FOR\s+(NO\s+KEY\s+UPDATE|UPDATE|KEY\s+SHARE|SHARE)(\s+OF\s+[\w\s,.]+?)?(\s+NOWAIT|\s+SKIP\s+LOCKED)?\s*$", re.I)  # fmt: skip
_CHANGES = re.compile(r"\b(INSERT|UPDATE|DELETE)\b", re.I)
_CAST = re.compile(r"(?<=[\w)\"'])::\s*\w+(\(\d+(,\s*\d+)?\))?(\[\])?")
_SERIAL = re.compile(r"\b(BIG|SMALL)?SERIAL\s+PRIMARY\s+KEY\b|\bINT(EGER)?\s+GENERATED\s+\w+\s+(\w+\s+)?AS\s+IDENTITY\s+PRIMARY\s+KEY\b", re.I)  # fmt: skip
_SLEEP = re.compile(r"SELECT\s+pg_sleep\(\s*([\d.]+)\s*\)$", re.I)
_SCHEMA = re.compile(r"\b(pg_catalog|public)\.(?=\w)", re.I)
_STRICT = re.compile(r"ISOLATION\s+LEVEL\s+(SERIALIZABLE|REPEATABLE\s+READ)", re.I)
_QUIET = ("SET", "RESET", "DISCARD", "DEALLOCATE", "LISTEN", "UNLISTEN")
_STATES = {
    "UNIQUE": "23505", "NOT NULL": "23502", "FOREIGN KEY": "23503", "CHECK": "23514", "no such table": "42P01",
    "no such column": "42703", "syntax error": "42601", "already exists": "42P07", "no such function": "42883",
}  # fmt: skip


class Result(NamedTuple):
    """The answer to a statement. Without columns it has no rows."""

    tag: str
    columns: Sequence[str] | None = None
    rows: Sequence[Sequence[Any]] = ()


def split(text: str) -> list[str]:
    """Split a text into statements, without the semicolons."""
    statements, begin = [], 0
    for place in [match.end() for match in re.finditer(";", text)]:
        if sqlite3.complete_statement(text[begin:place]):
            statements.append(text[begin : place - 1])
            begin = place
    statements.append(text[begin:])
    return [one for one in (_COMMENTS.sub("", statement).strip() for statement in statements) if one]


class Session:
    """A connection's transactions. A subclass runs the other statements."""

    def __init__(self) -> None:
        self.status = IDLE

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Result:
        """Run a statement. May switch. Raises Error, after which a transaction accepts only its end."""
        words = sql.upper().split(None, 3)
        first, second = words[0].rstrip(";"), words[1] if len(words) > 1 else ""
        back = first == "ROLLBACK" and ("TO" in words[1:3])
        if self.status == FAILED and not back and first not in ("ROLLBACK", "ABORT", "COMMIT", "END"):
            raise Error("25P02", "current transaction is aborted, commands ignored until end of transaction block")
        try:
            if first == "BEGIN" or (first, second) == ("START", "TRANSACTION"):
                self.begin(bool(_STRICT.search(sql)))
                return Result("BEGIN")
            if first in ("COMMIT", "END"):
                return Result("COMMIT" if self.end(self.status == IN_TRANSACTION) else "ROLLBACK")
            if first == "ABORT" or (first == "ROLLBACK" and not back):
                self.end(False)
                return Result("ROLLBACK")
            if first in ("SAVEPOINT", "RELEASE") or back:
                self._check_in_transaction()
                self.savepoint("ROLLBACK TO" if back else first, sql.split()[-1])
                self.status = IN_TRANSACTION
                return Result("ROLLBACK" if back else first)
            if first in _QUIET:
                if self.status == IN_TRANSACTION and second == "TRANSACTION" and _STRICT.search(sql):
                    self.take_all()
                return Result(first)
            if first == "SHOW":
                name = sql.split(None, 1)[1].lower() if second else ""
                return Result("SHOW", [name.replace(" ", "_")], [[SHOWN.get(name, "")]])
            return self.run(first, sql, parameters)
        except Error:
            if self.status == IN_TRANSACTION:
                self.status = FAILED
            raise

    def _check_in_transaction(self) -> None:
        if self.status == IDLE:
            raise Error("25P01", "savepoints can only be used in transaction blocks")

    def begin(self, alone: bool = False) -> None:
        self.status = IN_TRANSACTION
        if alone:
            self.take_all()

    def end(self, commit: bool) -> bool:
        """End the transaction, if there is one. Return whether it is committed."""
        self.status = IDLE
        return commit

    def close(self) -> None:
        self.end(False)

    def take_all(self) -> None:
        """Let no other transaction change anything until this one ends. May switch."""

    def savepoint(self, what: str, name: str) -> None:
        """Run SAVEPOINT, RELEASE or ROLLBACK TO."""

    def run(self, first: str, sql: str, parameters: Sequence[Any]) -> Result:
        raise NotImplementedError


def _tag(first: str, count: int) -> str:
    """Return what the server says of a statement that is done."""
    if first == "INSERT":
        return f"INSERT 0 {count}"
    first = "SELECT" if first in ("VALUES", "WITH") else first
    return f"{first} {count}" if first in ("SELECT", "UPDATE", "DELETE") else first


class HandlerSession(Session):
    """Calls a function of the test for each statement that is not about transactions."""

    def __init__(self, handler: Handler) -> None:
        super().__init__()
        self._handler = handler

    def run(self, first: str, sql: str, parameters: Sequence[Any]) -> Result:
        answer = self._handler(sql, tuple(parameters))
        if answer is None:
            return Result(_tag(first, 0))
        columns, rows = answer
        return Result(_tag(first, len(rows)), list(columns), [tuple(row) for row in rows])


def _connect() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys = ON")
    functions = {
        "now": lambda: str(datetime.fromtimestamp(time.time(), timezone.utc)), "current_schema": lambda: "public",
        "version": lambda: f"PostgreSQL {VERSION} (the fake of fiberrt.testing)",
    }  # fmt: skip
    for name, function in functions.items():
        connection.create_function(name, 0, function)
    # SQLAlchemy asks for types of extensions.
    connection.create_function("to_regtype", 1, lambda name: None)
    connection.execute("CREATE TEMP TABLE pg_type (oid, typname, typarray, typdelim, typnamespace)")
    connection.execute("CREATE TEMP TABLE pg_namespace (oid, nspname)")
    return connection


class Database:
    """What the sessions share: the committed data, and the lock of the one transaction that changes data."""

    def __init__(self) -> None:
        self.committed = _connect()
        self.writing = threading.Lock()
        self.mutex = threading.Lock()  # for a statement; nothing waits while it is held


class SqlSession(Session):
    """Runs statements by SQLite, with PostgreSQL's READ COMMITTED: a statement sees the data that are committed before
    it, and the changes that its transaction has made. The first change of a transaction waits until no other transaction has
    changes; from then on the transaction works on a copy, which its commit makes the committed data."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._copy: sqlite3.Connection | None = None
        self._savepoints: list[str] = []

    def take_all(self, wait: bool = True) -> None:
        if self._copy is not None:
            return
        if not self._database.writing.acquire(wait):
            raise Error("55P03", "could not obtain lock on row")
        with self._database.mutex:
            self._copy = _connect()
            self._database.committed.backup(self._copy)
            for name in self._savepoints:
                self._copy.execute(f"SAVEPOINT {name}")

    def end(self, commit: bool) -> bool:
        copy, self._copy = self._copy, None
        self._savepoints.clear()
        self.status = IDLE
        if copy is not None:
            with self._database.mutex:
                if commit:
                    if copy.in_transaction:
                        copy.execute("COMMIT")
                    copy, self._database.committed = self._database.committed, copy
                copy.close()
            self._database.writing.release()
        return commit

    def savepoint(self, what: str, name: str) -> None:
        if what == "SAVEPOINT":
            self._savepoints.append(name)
        elif name not in self._savepoints:
            raise Error("3B001", f"savepoint {name} does not exist")
        else:
            place = len(self._savepoints) - self._savepoints[::-1].index(name)
            del self._savepoints[place if what == "ROLLBACK TO" else place - 1 :]
        if self._copy is not None:
            self._copy.execute(f"{what} {name}")

    def run(self, first: str, sql: str, parameters: Sequence[Any]) -> Result:
        sleep = _SLEEP.match(sql)
        if sleep:
            time.sleep(float(sleep[1]))
            return Result("SELECT 1", ["pg_sleep"], [[""]])
        locks = _FOR_UPDATE.search(sql) if first in ("SELECT", "WITH") else None
        if locks:
            if (locks[3] or "").strip().upper().startswith("SKIP"):
                raise Error("0A000", "the fake of fiberrt.testing has no SKIP LOCKED")
            sql = sql[: locks.start()]
        reads = first in ("SELECT", "VALUES", "EXPLAIN") or (first == "WITH" and not _CHANGES.search(sql))
        if reads and not locks:
            return self._run_in(self._copy or self._database.committed, first, sql, parameters)
        if self.status == IDLE:
            with self._database.writing:
                return self._run_in(self._database.committed, first, sql, parameters)
        self.take_all(wait=not (locks and locks[3]))
        assert self._copy is not None
        return self._run_in(self._copy, first, sql, parameters)

    def _run_in(self, connection: sqlite3.Connection, first: str, sql: str, parameters: Sequence[Any]) -> Result:
        text = _SCHEMA.sub("", _CAST.sub("", _SERIAL.sub("INTEGER PRIMARY KEY AUTOINCREMENT", sql)))
        values = {str(place): _value(one) for place, one in enumerate(parameters, 1)}
        try:
            with self._database.mutex:
                if first == "TRUNCATE":
                    text = re.sub(r"^TRUNCATE(\s+TABLE)?", "DELETE FROM", text, flags=re.I)
                cursor = connection.execute(text, values)
                rows = cursor.fetchall()
        except (sqlite3.Error, OverflowError) as error:
            state = next((state for words, state in _STATES.items() if words in str(error)), "XX000")
            raise Error(state, str(error)) from None
        if cursor.description is not None:
            return Result(_tag(first, len(rows)), [column[0] for column in cursor.description], rows)
        return Result(_tag(first, max(cursor.rowcount, 0)))


def _value(value: Any) -> Any:
    """Return a parameter for SQLite. A client that does not tell the types sends numbers as text."""
    if isinstance(value, str) and len(value) < 19 and value.lstrip("-").isdecimal() and str(int(value)) == value:
        return int(value)
    return value
