"""A load of transactions on a real database, whose triggers keep what was committed, in the form of a capture.

Several writers at once insert, update, delete, load lines, change keys, truncate and roll back; what each writes is
drawn from a seed. `account` writes `truth.jsonl.gz` and `history.jsonl.gz` as `tests/judge.py` reads them. The order of
commits is that of a decoding slot, with PostgreSQL's own times, and that of MariaDB's GTIDs, which writers note.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pg8000.native
import pymysql

from tests.live.servers import MariaDb
from tests.servers import DATABASE, Postgres, until

TABLES: Final = ("account", "item", "line", "scratch", "grown", "marker")
CONNECTOR: Final = "connector"
_FEW: Final = 40
_SCHEMA: Final = (
    "create table account (id int primary key, owner varchar(40) not null, balance decimal(12,2), body text)",
    "create table item (a int, b varchar(20), qty int default 5, price decimal(10,3), seen timestamp(6) null,"
    " primary key (a, b))",
    "create table line (order_id int, product varchar(20), amount int)",
    "create table scratch (id int primary key, word varchar(20))",
    "create table grown (id int primary key, name varchar(20), total int)",
    "create table marker (id int primary key, word varchar(20))",
    "create table debezium_signal (id varchar(64) primary key, type varchar(32) not null, data varchar(2048))",
)
_FIRST: Final = (
    *(f"insert into account values ({id_}, 'first', {id_}.5, '{'f' * 3000}')" for id_ in range(0, _FEW, 2)),
    *(f"insert into item values ({a}, 'first', null, 1.500, null)" for a in range(8)),
    "insert into line values (1, 'first', 1), (1, 'first', 1), (2, 'first', null)",
    *(f"insert into grown values ({id_}, 'first', 1)" for id_ in range(20)),
)


@dataclass(frozen=True)
class Step:
    """A statement, the table that it is about, and the rows that it loads, if it is one that loads."""

    sql: str
    table: str
    rows: tuple[tuple[Any, ...], ...] = ()


@dataclass(frozen=True)
class Dialect:
    """What two databases spell differently."""

    insert: str
    unless_there: str
    else_update: str
    growth: tuple[str, str]


class Load:
    """Writers of a database and what they came to."""

    dialect: Dialect

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.changes = 0
        self.failures: list[str] = []
        self.shape = 0
        # Unset while a snapshot reads: PostgreSQL's TRUNCATE empties a table for a snapshot that is older, too, and an
        # incremental one sends behind a truncate what it has read before it.
        self.may_truncate = threading.Event()
        self._counting = threading.Lock()

    def write(self, writer: int, stop: threading.Event, pause: float) -> None:
        """Write transactions until told to stop. A conflict with another writer rolls back, as in any application."""
        draw = random.Random(f"{self.seed} {writer}")
        kinds, weights = zip(*_KINDS.items(), strict=True)
        session = self.session()
        while not stop.wait(draw.uniform(0, 2 * pause)):
            drawn = draw.choices(kinds, weights, k=draw.choice((1, 1, 2, 5)))
            self._try(session, [kind(self, draw) for kind in drawn], is_kept=draw.random() > 0.1)
            if self.failures:
                return

    def write_each(self) -> None:
        """Commit at least one change of each kind: some are drawn so seldom that a short load may have none."""
        draw, session = random.Random(self.seed), self.session()
        for kind in _KINDS:
            tries = (self._try(session, [kind(self, draw)]) or self.failures for _ in range(1000))
            assert any(tries), f"{kind.__name__}: no change in 1,000 tries"

    def _try(self, session: Any, steps: Sequence[Step], *, is_kept: bool = True) -> int:
        """Run a transaction that another writer may be in the way of; how many changes were committed."""
        try:
            done = self.transact(session, steps, is_kept=is_kept)
        except (pg8000.native.DatabaseError, pymysql.Error) as error:
            if not self.is_conflict(error):
                self.failures.append(f"{[one.sql[:200] for one in steps]}: {error}")
            return 0
        with self._counting:
            self.changes += done
        return done

    def session(self) -> Any:
        """A writer's connection."""
        raise NotImplementedError

    def transact(self, session: Any, steps: Sequence[Step], *, is_kept: bool = True) -> int:
        """Run steps as one transaction, committed or rolled back; how many changes were committed."""
        raise NotImplementedError

    def is_conflict(self, error: Exception) -> bool:
        """Whether another writer was in the way: a key that is taken, a deadlock, a lock that was not had in time."""
        raise NotImplementedError

    def grow(self) -> None:
        """Alter `grown` once more, while it is written: a column is added, then two are widened.

        The column has no default: one would fill old rows without an event (Observed 16).
        """
        raise NotImplementedError

    def mark(self, id_: int, word: str) -> None:
        """Write a row behind everything that was committed."""
        self.transact(self.session(), [Step(f"insert into marker values ({id_}, '{word}')", "marker")])

    def signal(self, id_: str, tables: Iterable[str]) -> None:
        """Ask the connector for an incremental snapshot."""
        data = json.dumps({"data-collections": [self.in_source(name) for name in tables], "type": "incremental"})
        self.transact(
            self.session(), [Step(f"insert into debezium_signal values ('{id_}', 'execute-snapshot', '{data}')", "")]
        )

    def in_source(self, table: str) -> str:
        """A table's name as the connector has it."""
        raise NotImplementedError

    def account(self, folder: Path) -> None:
        """Write the database's own account of itself into a folder."""
        raise NotImplementedError


# What writers write


def _text(draw: random.Random) -> str:
    """Text of some length; PostgreSQL keeps the longer beside the row, and leaves it out of updates of the rest."""
    return draw.randbytes(draw.choice((10, 1100, 2000))).hex()


def _open(load: Load, draw: random.Random) -> Step:
    values = f"{draw.randrange(_FEW)}, 'o{draw.randrange(99)}', {draw.randrange(10**6) / 100}, '{_text(draw)}'"
    return Step(f"{load.dialect.insert} into account values ({values}) {load.dialect.unless_there}", "account")


def _pay(load: Load, draw: random.Random) -> Step:
    return Step(f"update account set balance = balance + 1.25 where id = {draw.randrange(_FEW)}", "account")


def _rewrite(load: Load, draw: random.Random) -> Step:
    return Step(f"update account set body = '{_text(draw)}' where id = {draw.randrange(_FEW)}", "account")


def _forget(load: Load, draw: random.Random) -> Step:
    return Step(f"update account set balance = null where id = {draw.randrange(_FEW)}", "account")


def _close(load: Load, draw: random.Random) -> Step:
    return Step(f"delete from account where id = {draw.randrange(_FEW)}", "account")


def _rekey(load: Load, draw: random.Random) -> Step:
    new, old = draw.sample(range(_FEW), 2)
    return Step(f"update account set id = {new} where id = {old}", "account")


def _stock(load: Load, draw: random.Random) -> Step:
    values = f"{draw.randrange(9)}, '{draw.choice('abcdefgh')}', 1, {draw.randrange(9999) / 1000}, current_timestamp"
    return Step(f"insert into item values ({values}) {load.dialect.else_update}", "item")


def _count(load: Load, draw: random.Random) -> Step:
    return Step(f"update item set qty = qty + 1 where a = {draw.randrange(9)}", "item")


def _move(load: Load, draw: random.Random) -> Step:
    # To and from more letters than are stocked: where there is a row, there soon is a key that it can be moved to.
    old, new = draw.sample("abcdefghijkl", 2)
    return Step(f"update item set b = '{new}' where a = {draw.randrange(9)} and b = '{old}'", "item")


def _clear(load: Load, draw: random.Random) -> Step:
    return Step(f"delete from item where a = {draw.randrange(9)}", "item")


def _lines(load: Load, draw: random.Random) -> Step:
    order, products = draw.randrange(300), draw.choices("xyz", k=draw.choice((2, 10, 30)))
    return Step("", "line", tuple((order, one, draw.randrange(3)) for one in products))


def _more(load: Load, draw: random.Random) -> Step:
    return Step(f"update line set amount = amount + 1 where order_id = {draw.randrange(300)}", "line")


def _cancel(load: Load, draw: random.Random) -> Step:
    return Step(f"delete from line where order_id = {draw.randrange(300)}", "line")


def _scratch(load: Load, draw: random.Random) -> Step:
    # More ids than are ever there at once, and others than `_words` has: some of four can always be inserted.
    ids = draw.sample(range(10**9, 10**9 + 10**5), 4)
    rows = ", ".join(f"({id_}, 'w{draw.randrange(9)}')" for id_ in ids)
    return Step(f"{load.dialect.insert} into scratch values {rows} {load.dialect.unless_there}", "scratch")


def _words(load: Load, draw: random.Random) -> Step:
    return Step("", "scratch", tuple((draw.randrange(100, 10**9), f"w{number}") for number in range(8)))


def _truncate(load: Load, draw: random.Random) -> Step:
    return Step("truncate table scratch", "scratch") if load.may_truncate.is_set() else _scratch(load, draw)


def _grow(load: Load, draw: random.Random) -> Step:
    values = {
        "name": f"'n{draw.randrange(9) * 10 ** (load.shape > 1 and 60)}'",
        "total": 3 * 10 ** (load.shape > 1 and 12),
    }
    extra = f", extra = 'e{draw.randrange(9)}'" if load.shape else ""
    change = f"update grown set name = {values['name']}, total = {values['total']}{extra}"
    return Step(f"{change} where id = {draw.randrange(20)}", "grown")


_KINDS: Final[Mapping[Callable[[Load, random.Random], Step], float]] = {
    _open: 6, _pay: 6, _rewrite: 2, _forget: 1, _close: 3, _rekey: 3, _stock: 6, _count: 3, _move: 2, _clear: 1,
    _lines: 4, _more: 1, _cancel: 2, _scratch: 3, _words: 1, _truncate: 0.3, _grow: 4,
}  # fmt: skip


def _write_lines(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(one) + "\n" for one in rows)


# PostgreSQL

_POSTGRES_NOTES: Final = """
create schema audit;
create table audit.history (
  seq bigserial primary key, txid bigint, name text, op text, clock_ts timestamptz default clock_timestamp(),
  before jsonb, after jsonb
);
create function audit.note() returns trigger language plpgsql security definer as $$
begin
  insert into audit.history (txid, name, op, before, after) values (
    pg_current_xact_id()::text::bigint, tg_table_schema || '.' || tg_table_name,
    case tg_op when 'INSERT' then 'c' when 'UPDATE' then 'u' when 'DELETE' then 'd' else 't' end,
    case when tg_op in ('UPDATE', 'DELETE') then to_jsonb(old) end,
    case when tg_op in ('INSERT', 'UPDATE') then to_jsonb(new) end
  );
  return null;
end $$;
"""
_POSTGRES_IDENTITY: Final = {"item": "full", "line": "full"}


class PostgresLoad(Load):
    """A load on PostgreSQL: large values are left out of `account`'s updates, whole rows stand before `item`'s."""

    dialect = Dialect(
        "insert",
        "on conflict do nothing",
        "on conflict (a, b) do update set qty = item.qty + 1",
        (
            "alter table grown add column extra varchar(30)",
            "alter table grown alter column name type varchar(200), alter column total type bigint",
        ),
    )

    def __init__(self, server: Postgres, seed: int) -> None:
        super().__init__(seed)
        self.server = server
        self.password = server.password
        self.starts_at = ""
        session = server.connect()
        session.run(_POSTGRES_NOTES)
        for statement in _SCHEMA:
            session.run(statement)
        session.run("alter table account alter column body set storage external")
        for name in TABLES:
            session.run(f"alter table {name} replica identity {_POSTGRES_IDENTITY.get(name, 'default')}")
            session.run(
                f"create trigger note after insert or update or delete on {name}"
                " for each row execute function audit.note()"
            )
            session.run(
                f"create trigger note_all after truncate on {name} for each statement execute function audit.note()"
            )
        session.run(f"create role {CONNECTOR} login replication password '{self.password}'")
        session.run(f"grant select on all tables in schema public to {CONNECTOR}")
        session.run(f"alter default privileges in schema public grant select on tables to {CONNECTOR}")
        session.run(f"grant insert, delete on debezium_signal to {CONNECTOR}")
        session.run("create publication tidemark for tables in schema public")
        session.run("select pg_create_logical_replication_slot('judge', 'test_decoding')")
        for statement in _FIRST:
            session.run(statement)

    def session(self) -> pg8000.native.Connection:
        """A connection of its owner's, for a writer."""
        return self.server.connect()

    def transact(self, session: pg8000.native.Connection, steps: Sequence[Step], *, is_kept: bool = True) -> int:
        """Run steps as one transaction; rows that are loaded are a COPY."""
        done = 0
        session.run("begin")
        try:
            for step in steps:
                if step.rows:
                    text = "".join("\t".join(map(str, row)) + "\n" for row in step.rows)
                    session.run(f"copy {step.table} from stdin", stream=io.StringIO(text))
                else:
                    session.run(step.sql)
                done += max(session.row_count, 1 if "truncate" in step.sql else 0)
            session.run("commit" if is_kept else "rollback")
        except BaseException:
            session.run("rollback")
            raise
        return done if is_kept else 0

    def is_conflict(self, error: Exception) -> bool:
        """Whether a key was taken, or a lock not to be had."""
        said = error.args[0] if error.args else {}
        return isinstance(said, dict) and said.get("C") in ("23505", "40P01", "55P03")

    def grow(self) -> None:
        """Alter the table while writers wait for it."""
        self.session().run(self.dialect.growth[self.shape])
        self.shape += 1

    def in_source(self, table: str) -> str:
        """A table's name with its schema."""
        return f"public.{table}"

    def note_start(self) -> None:
        """Remember where the connector's slot begins: what was committed before it is in the snapshot."""
        session = self.session()
        slot = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = 'tidemark'"
        [[self.starts_at]] = until(lambda: [one for one in session.run(slot) if one[0]], lambda: "no slot")

    def account(self, folder: Path) -> None:
        """Write what the triggers noted, in the order of commits, and the rows as they are."""
        session = self.session()
        session.run(
            "create temp table commits as"
            " select row_number() over (order by lsn) as commit_seq, lsn, xid::text::bigint as txid"
            " from pg_logical_slot_get_changes('judge', null, null, 'skip-empty-xacts', '1') where data like 'COMMIT%'"
        )
        rows = session.run(
            "select commit_seq, seq, case when lsn <= cast(:start as pg_lsn) then 'before_start' else 'stream' end,"
            " name, op, txid, lsn::text, pg_xact_commit_timestamp(txid::text::xid)::text, clock_ts::text,"
            " before::text, after::text from audit.history join commits using (txid) order by commit_seq, seq",
            start=self.starts_at,
        )
        columns = [
            "commit_seq",
            "seq",
            "phase",
            "table",
            "op",
            "txid",
            "commit",
            "commit_ts",
            "clock_ts",
            "before",
            "after",
        ]
        [[noted]] = session.run("select count(*) from audit.history")
        assert noted == len(rows), "a change that no commit is known of"
        lines = (dict(zip(columns, row, strict=True)) for row in rows)
        _write_lines(
            folder / "history.jsonl.gz",
            (one | {image: json.loads(one[image] or "null") for image in ("before", "after")} for one in lines),
        )
        _write_lines(
            folder / "truth.jsonl.gz",
            (
                {"table": f"public.{name}", "row": json.loads(row)}
                for name in TABLES
                for [row] in session.run(f"select to_jsonb(one)::text from {name} as one")
            ),
        )


# MariaDB

_SPELLED: Final = {"decimal": "cast({} as char)", "timestamp": "cast({} as char)"}
_MARIADB_EVENTS: Final = {"c": ("insert", "", "new"), "u": ("update", "old", "new"), "d": ("delete", "old", "")}


class MariaDbLoad(Load):
    """A load on MariaDB. Its triggers are of rows: a truncate is noted by who wrote it, alone with its table."""

    dialect = Dialect(
        "insert ignore",
        "",
        "on duplicate key update qty = qty + 1",
        (
            "alter table grown add column extra varchar(30)",
            "alter table grown modify name varchar(200), modify total bigint",
        ),
    )

    def __init__(self, server: MariaDb, seed: int) -> None:
        super().__init__(seed)
        self.server = server
        self.password = server.password
        self.starts_at = 0
        self._gtids: dict[str, int] = {}
        self._truncates: list[tuple[int, str]] = []
        self._alone = threading.Lock()
        session = self.session()
        with session.cursor() as cursor:
            cursor.execute("create database audit")
            cursor.execute(
                "create table audit.history (seq bigint auto_increment primary key, txn varchar(40), name varchar(40),"
                " op char(1), clock_ts datetime(6), before_ longtext, after_ longtext)"
            )
            for statement in _SCHEMA:
                cursor.execute(statement)
            for name in TABLES:
                self._watch(cursor, name)
            cursor.execute(f"create user {CONNECTOR}@'127.0.0.1' identified by '{self.password}'")
            cursor.execute(
                "grant select, reload, show databases, replication slave, replication client, lock tables"
                f" on *.* to {CONNECTOR}@'127.0.0.1'"
            )
            cursor.execute(f"grant insert, delete on {DATABASE}.debezium_signal to {CONNECTOR}@'127.0.0.1'")
        self.transact(session, [Step(statement, statement.split()[2]) for statement in _FIRST])

    def session(self) -> pymysql.Connection[Any]:
        """A connection of its owner's, for a writer."""
        return self.server.connect()

    def transact(self, session: pymysql.Connection[Any], steps: Sequence[Step], *, is_kept: bool = True) -> int:
        """Run steps as one transaction; what a truncate finds open in it is committed first."""
        done = 0
        with (
            self._alone if any(step.table in ("scratch", "grown") for step in steps) else nullcontext(),
            session.cursor() as cursor,
        ):
            try:
                for step in steps:
                    if step.sql.startswith("truncate"):  # commits what is before it, and itself
                        session.commit()
                        self._note(cursor)
                        cursor.execute(step.sql)
                        cursor.execute("select @@last_gtid, utc_timestamp(6)")
                        gtid, now = cursor.fetchone()
                        self._truncates.append((_number(gtid), str(now)))
                        done += 1
                    else:
                        cursor.execute("set @txn = ifnull(@txn, uuid())")
                        done += self._run(cursor, step)
                session.commit() if is_kept else session.rollback()
            except BaseException:
                session.rollback()
                raise
            finally:
                self._note(cursor)
        return done if is_kept else 0

    def _run(self, cursor: Any, step: Step) -> int:
        if not step.rows:
            return int(cursor.execute(step.sql))
        values = ", ".join(str(row).replace("None", "null") for row in step.rows)
        return int(cursor.execute(f"insert into {step.table} values {values}"))

    def _note(self, cursor: Any) -> None:
        """Remember the GTID of the transaction that ended; one that was rolled back leaves no notes of its triggers."""
        cursor.execute("select @txn, @@last_gtid")
        txn, gtid = cursor.fetchone()
        cursor.execute("set @txn = null")
        if txn and gtid:
            self._gtids[txn] = _number(gtid)

    def is_conflict(self, error: Exception) -> bool:
        """Whether a key was taken, or a lock not to be had."""
        return bool(error.args) and error.args[0] in (1062, 1205, 1213)

    def grow(self) -> None:
        """Alter the table and its triggers, while nobody writes it."""
        with self._alone, self.session().cursor() as cursor:
            cursor.execute(self.dialect.growth[self.shape])
            self._watch(cursor, "grown")
            self.shape += 1

    def _watch(self, cursor: Any, table: str) -> None:
        """Make the triggers of a table as it is now; the binary log needn't know."""
        cursor.execute(
            "select column_name, data_type from information_schema.columns where table_schema = %s and table_name = %s"
            " order by ordinal_position",
            (DATABASE, table),
        )
        columns = cursor.fetchall()
        cursor.execute("set sql_log_bin = 0")
        for op, (event, *images) in _MARIADB_EVENTS.items():
            before, after = (
                f"json_object({', '.join(_member(image, *column) for column in columns)})" if image else "null"
                for image in images
            )
            cursor.execute(
                f"create or replace trigger note_{table}_{event} after {event} on {table} for each row"
                " insert into audit.history (txn, name, op, clock_ts, before_, after_)"
                f" values (@txn, '{DATABASE}.{table}', '{op}', sysdate(6), {before}, {after})"
            )
        cursor.execute("set sql_log_bin = 1")

    def in_source(self, table: str) -> str:
        """A table's name with its database."""
        return f"{DATABASE}.{table}"

    def note_start(self) -> None:
        """Remember where the connector begins: nothing is written meanwhile."""
        with self.session().cursor() as cursor:
            cursor.execute("select @@gtid_binlog_pos")
            self.starts_at = _number(cursor.fetchone()[0])

    def account(self, folder: Path) -> None:
        """Write what the triggers noted, in the order of commits, and the rows as they are."""
        with self.session().cursor() as cursor:
            cursor.execute("select seq, txn, name, op, clock_ts, before_, after_ from audit.history")
            noted = [
                (self._gtids[txn], seq, name, op, str(clock), json.loads(before or "null"), json.loads(after or "null"))
                for seq, txn, name, op, clock, before, after in cursor.fetchall()
                if before != after  # an update that changes nothing is in no log
            ]
            noted += [(gtid, 0, f"{DATABASE}.scratch", "t", clock, None, None) for gtid, clock in self._truncates]
            _write_lines(
                folder / "history.jsonl.gz",
                (
                    {
                        "commit_seq": gtid, "seq": seq, "phase": "before_start" if gtid <= self.starts_at else "stream",
                        "table": name, "op": op, "txid": gtid, "commit": gtid, "commit_ts": None, "clock_ts": clock,
                        "before": before, "after": after,
                    }
                    for gtid, seq, name, op, clock, before, after in sorted(noted, key=lambda one: one[:2])
                ),
            )  # fmt: skip
            truth = []
            for table in TABLES:
                cursor.execute(
                    "select column_name, data_type from information_schema.columns"
                    " where table_schema = %s and table_name = %s order by ordinal_position",
                    (DATABASE, table),
                )
                members = ", ".join(_member(table, *column) for column in cursor.fetchall())
                cursor.execute(f"select json_object({members}) from {table}")
                truth += [{"table": f"{DATABASE}.{table}", "row": json.loads(row)} for [row] in cursor.fetchall()]
            _write_lines(folder / "truth.jsonl.gz", truth)


def _member(image: str, name: str, type_: str) -> str:
    return f"'{name}', " + _SPELLED.get(type_, "{}").format(f"{image}.{name}")


def _number(gtid: str) -> int:
    """The place of a GTID in its server's log; there is one server, so one domain."""
    return int(gtid.rpartition("-")[2])
