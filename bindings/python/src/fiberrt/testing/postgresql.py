# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small PostgreSQL server within a test's process, so that the simulation chooses the order of statements.

    with fake_postgresql("CREATE TABLE account (id int PRIMARY KEY, balance int)") as server:
        connection = psycopg.connect(server.dsn)
        connection = pg8000.dbapi.connect("test", host=server.host, port=server.port)

The statements run in SQLite, with the isolation level READ COMMITTED. Their SQL is SQLite's; casts and serial primary
keys are translated. One transaction at a time has changes: the first change of another one, or its SELECT ... FOR
UPDATE, waits for the end of the first, even if the rows are others. A transaction of a stricter level is alone from its
begin on. There is no COPY, LISTEN, SKIP LOCKED or cancel, and the first value in a column decides the column's type.

    with fake_postgresql(handler=function) as server:

calls function(sql, parameters) for each statement that is not about transactions. It returns (columns, rows), or None for
a statement without rows; it raises postgresql.Error; it may wait.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ._pg_protocol import (
    CANCEL,
    GSS,
    TEXT,
    TLS,
    VERSION_3,
    Error,
    ProtocolError,
    Reader,
    data_row,
    error_message,
    message,
    parameter,
    read_message,
    read_startup,
    row_description,
    type_of,
    z,
)
from ._pg_sessions import (
    IDLE,
    IN_TRANSACTION,
    VERSION,
    Database,
    Handler,
    HandlerSession,
    Result,
    Session,
    SqlSession,
    split,
)
from ._service import Receiver, Service, maybe_delay

__all__ = ["Error", "PostgreSQLService", "fake_postgresql"]

_SETTINGS = {
    "server_version": VERSION, "server_encoding": "UTF8", "client_encoding": "UTF8", "DateStyle": "ISO, MDY",
    "TimeZone": "UTC", "integer_datetimes": "on", "standard_conforming_strings": "on",
}  # fmt: skip

class _Statement:
    """A prepared statement."""

    def __init__(self, sql: str, types: list[int]) -> None:
        self.sql = sql
        count = max((int(number) for number in re.findall(r"\$(\d+)", sql)), default=0)
        self.types = types + [0] * (count - len(types))


class _Portal:
    """A statement with parameters. It runs when its columns are asked for, because they are not known before."""

    def __init__(self, sql: str, values: list[Any], formats: list[int]) -> None:
        self.sql, self.values, self.formats = sql, values, formats
        self.result: Result | None = None
        self.described = False
        self.sent = 0  # rows

    def formats_of(self, count: int) -> Sequence[int]:
        return self.formats if len(self.formats) == count else [*self.formats, 0][:1] * count


class _Connection:
    def __init__(self, connection: socket.socket, session: Session, number: int) -> None:
        self._socket, self._session, self._number = connection, session, number
        self._receiver = Receiver(connection)
        self._out = bytearray()
        self._statements: dict[str, _Statement] = {}
        self._portals: dict[str, _Portal] = {}

    def serve(self) -> None:
        if not self._begin():
            return
        skips = False  # after an error, until Sync
        while True:
            kind, content = read_message(self._receiver)
            if kind == b"X":
                return
            if skips and kind != b"S":
                continue
            if kind in b"QB":
                maybe_delay()
            try:
                handle = self._HANDLERS.get(kind)
                if handle is None:
                    raise Error("0A000", f"the fake of fiberrt.testing does not know messages of type {kind!r}")
                handle(self, content)
                skips = False
            except Error as error:
                self._out += error_message(error)
                skips = kind in b"PBDEC"
            if kind in b"QS":
                self._out += message(b"Z", self._session.status)
            if kind in b"QSH" or len(self._out) > 1 << 16:
                self._flush()

    def _flush(self) -> None:
        data, self._out = self._out, bytearray()
        self._socket.sendall(data)

    def _begin(self) -> bool:
        version, _ = read_startup(self._receiver)
        while version in (TLS, GSS):
            self._socket.sendall(b"N")
            version, _ = read_startup(self._receiver)
        if version == CANCEL:
            return False
        if version >> 16 != VERSION_3 >> 16:
            raise ProtocolError
        self._out += message(b"R", struct.pack("!i", 0))
        for name, value in _SETTINGS.items():
            self._out += message(b"S", z(name) + z(value))
        self._out += message(b"K", struct.pack("!ii", self._number, 0)) + message(b"Z", self._session.status)
        self._flush()
        return True

    # --- Messages

    def _query(self, content: Reader) -> None:
        statements = split(content.text())
        if not statements:
            self._out += message(b"I")
        together = len(statements) > 1 and self._session.status == IDLE
        if together:
            self._session.begin()
        try:
            for sql in statements:
                portal = _Portal(sql, [], [])
                self._run(portal)
                self._put_rows(portal, 0)
        except Error:
            if together:
                self._session.end(False)
            raise
        if together:
            self._session.end(self._session.status == IN_TRANSACTION)

    def _parse(self, content: Reader) -> None:
        name, sql = content.text(), content.text()
        statements = split(sql)
        if len(statements) > 1:
            raise Error("42601", "cannot insert multiple commands into a prepared statement")
        self._statements[name] = _Statement("".join(statements), content.list("i"))
        self._out += message(b"1")

    def _bind(self, content: Reader) -> None:
        portal, statement = content.text(), self._statement(content.text())
        formats = content.list("h")
        (count,) = content.numbers("H")
        values = []
        for place in range(count):
            binary = bool(formats[place] if len(formats) > 1 else formats and formats[0])
            type_ = statement.types[place] if place < len(statement.types) else 0
            values.append(parameter(content.value(), binary, type_))
        if count < len(statement.types):
            raise Error("08P01", f"the statement needs {len(statement.types)} parameters, not {count}")
        self._portals[portal] = _Portal(statement.sql, values, content.list("h"))
        self._out += message(b"2")

    def _describe(self, content: Reader) -> None:
        if content.take(1) == b"S":
            types = [type_ or TEXT for type_ in self._statement(content.text()).types]
            # The columns are not known yet: Execute tells them.
            self._out += message(b"t", struct.pack(f"!H{len(types)}i", len(types), *types)) + message(b"n")
            return
        portal = self._portal(content.text())
        self._run(portal)
        self._put_columns(portal) if self._has_columns(portal) else self._put(message(b"n"))

    def _execute(self, content: Reader) -> None:
        portal = self._portal(content.text())
        if not portal.sql:
            self._put(message(b"I"))
            return
        self._run(portal)
        self._put_rows(portal, content.numbers("i")[0])

    def _close(self, content: Reader) -> None:
        what = self._statements if content.take(1) == b"S" else self._portals
        what.pop(content.text(), None)
        self._put(message(b"3"))

    def _nothing(self, content: Reader) -> None:
        pass

    _HANDLERS: dict[bytes, Callable[[_Connection, Reader], None]] = {
        b"Q": _query, b"P": _parse, b"B": _bind, b"D": _describe, b"E": _execute, b"C": _close, b"S": _nothing,
        b"H": _nothing, b"p": _nothing,
    }  # fmt: skip

    # --- Results

    def _put(self, data: bytes) -> None:
        self._out += data

    def _statement(self, name: str) -> _Statement:
        statement = self._statements.get(name)
        if statement is None:
            raise Error("26000", f'prepared statement "{name}" does not exist')
        return statement

    def _portal(self, name: str) -> _Portal:
        portal = self._portals.get(name)
        if portal is None:
            raise Error("34000", f'portal "{name}" does not exist')
        return portal

    def _run(self, portal: _Portal) -> None:
        if portal.result is None:
            portal.result = self._session.execute(portal.sql, portal.values) if portal.sql else Result("")

    @staticmethod
    def _has_columns(portal: _Portal) -> bool:
        return portal.result is not None and portal.result.columns is not None

    def _types(self, result: Result) -> list[int]:
        return [type_of([row[place] for row in result.rows]) for place in range(len(result.columns or ()))]

    def _put_columns(self, portal: _Portal) -> None:
        result = portal.result
        assert result is not None and result.columns is not None
        portal.described = True
        self._put(row_description(result.columns, self._types(result), portal.formats_of(len(result.columns))))

    def _put_rows(self, portal: _Portal, most: int) -> None:
        """Send rows; at most so many, if most is not 0."""
        result = portal.result
        assert result is not None
        if self._has_columns(portal):
            if not portal.described:
                self._put_columns(portal)
            types = self._types(result)
            formats = portal.formats_of(len(types))
            rows = result.rows[portal.sent : portal.sent + most if most > 0 else None]
            portal.sent += len(rows)
            for row in rows:
                self._put(data_row(row, types, formats))
            if portal.sent < len(result.rows):
                self._put(message(b"s"))
                return
        self._put(message(b"C", z(result.tag)))


class PostgreSQLService(Service):
    """The server. A context manager. Any user, password and database are right; there is no TLS."""

    port_of_names = 5432
    kind = "postgresql"

    def __init__(self, handler: Handler | None = None) -> None:
        super().__init__()
        self._handler = handler
        self._database = Database()

    @property
    def host(self) -> str:
        """The listener's host, a numeric address."""
        return self.listen()[0]

    @property
    def port(self) -> int:
        """The listener's port."""
        return self.listen()[1]

    @property
    def dsn(self) -> str:
        """How libpq connects to this server: the address for psycopg and psycopg2."""
        return f"host={self.host} port={self.port} user=test dbname=test sslmode=disable gssencmode=disable"

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Run statements in one transaction, and return the rows of the last. Error: one fails. May switch."""
        session = self._session()
        session.begin()
        try:
            rows: Sequence[Sequence[Any]] = ()
            for statement in split(sql):
                rows = session.execute(statement).rows
            session.end(True)
        finally:
            session.close()
        return [tuple(row) for row in rows]

    def _session(self) -> Session:
        return SqlSession(self._database) if self._handler is None else HandlerSession(self._handler)

    def serve(self, connection: socket.socket, number: int) -> None:
        session = self._session()
        try:
            _Connection(connection, session, number).serve()
        except (EOFError, ProtocolError):
            pass
        finally:
            session.close()


def fake_postgresql(schema: str = "", *names: str, handler: Handler | None = None) -> PostgreSQLService:
    """Return a context manager: a new PostgreSQL server. schema: statements that it runs first. Sockets of this process
    that connect to one of the names, HOST or HOST:PORT, reach it, unless libpq makes them. Port 5432 is the default. handler: the function that gets the statements, instead of SQLite.

    Error: the schema is wrong. ValueError: another service has a name."""
    service = PostgreSQLService(handler)
    if schema:
        service.execute(schema)
    if names:
        service.listen(*names)
    return service
