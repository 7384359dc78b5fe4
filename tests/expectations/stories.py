"""The tables that the suites are tried on: one good, one with a fault per key, two with expectations of a user."""

from __future__ import annotations

import json

from tests.expectations.lakehouses import Story, at

SCRIPT = "<script>alert(1)</script>"
PRIVATE = "ada@example.org"


def good_story() -> Story:
    """A table with names that aren't plain: an update, a delete and a re-insert, a key change, a state found before.

    Its key gained a column, and what an update of a document leaves out is nothing lost.
    """
    story = Story(
        "good", key="Odd `Name`", value="a.b", names={"valid_from": "began", "position": "log position"},
        wide_key=True, documents=True, outcomes={}, built_with={"odd `name`": "string", "a.b": "STRING"},
    )  # fmt: skip
    story.version("truncated", 6, 9, closed_by="truncate")
    story.change(None, op="t", after=None, changed_at=at(9))
    story.version("one", 0, 5, closed_by="update")
    story.version("one", 5, 5, opened_by="update")
    story.version("one", 7)
    story.version("two", 0, 3, closed_by="key_change", next_key='{"id":"three"}')
    story.version("three", 3, opened_by="key_change", previous_key='{"id":"two"}')
    row = {"Odd `Name`": "four", "a.b": "value of four"}
    story.version(
        "four", 4, 4, opened_by="before", closed_by="update",
        change={"op": "u", "before": row, "is_before_whole": True},
    )  # fmt: skip
    found = len(story.changes) - 1
    story.version("four", 4, opened_by="update", position=f"{found:020}", offset=found, traced=False)
    story.version("of an old key", 6, **{"a.b": None})
    story.change("of an old key", op="u")
    story.changes[-1]["key"] = {"Odd `Name`": "of an old key", "a.b": None}
    story.version("read late", 6, opened_by="snapshot", transaction_id=None, change={"op": "r", "changed_at": at(8)})
    story.change("read late", op="u", changed_at=at(6))
    late = {"op": "r", "changed_at": at(8)}
    story.version("updated", 6, 6, opened_by="snapshot", closed_by="update", transaction_id=None, change=late)
    story.version("updated", 6, opened_by="update")
    story.version("clock set back", 6, 6, closed_by="update")
    story.version("clock set back", 6, opened_by="update", change={"changed_at": at(5)})
    story.version("held back", 6, 8)
    story.version("held back", 8, 8, change={"changed_at": at(7)}, ended={"changed_at": at(7)})
    story.version("read otherwise", 6, 9, closed_by="snapshot")
    story.version("read otherwise", 9, opened_by="snapshot", transaction_id=None, change={"op": "r"})
    story.version("deleted and inserted", 6)
    story.change("deleted and inserted", op="d", transaction_id="x")
    story.change("deleted and inserted", transaction_id="x")
    story.version("replaced", 6, 7, closed_by="update")
    story.change("replaced", op="d", transaction_id="z", changed_at=at(7))
    story.version("replaced", 7, transaction_id="z")
    story.change("arrived and updated", transaction_id="w", previous_key='{"id":"b"}')
    story.version(
        "arrived and updated", 7, opened_by="key_change", previous_key='{"id":"b"}', transaction_id="w",
        change={"op": "u", "previous_key": None},
    )  # fmt: skip
    moved = '{"Odd `Name`":"moved","a.b":"value of moved"}'
    moved_on = '{"Odd `Name`":"moved on","a.b":"value of moved on"}'
    story.version("moved", 6, 7, closed_by="key_change", next_key=moved_on, ended=None)
    story.version(
        "moved on", 7, opened_by="key_change", previous_key=moved,
        change={"op": "u", "before": json.loads(moved), "is_before_whole": True},
    )  # fmt: skip
    story.version("left by the row before", 6, 7, closed_by="key_change", next_key='{"id":"else"}', ended=None)
    story.version("left by the row before", 7, opened_by="key_change", previous_key='{"id":"b"}', transaction_id="y")
    story.change("left by the row before", op="d", transaction_id="y", next_key='{"id":"else"}', changed_at=at(7))
    story.change("of a document", op="u", transaction_id=None, unavailable_columns=["a.b"])
    story.change("ended behind the build", op="d", after=None, batch_id=2)
    story.change(None, op="t", after=None, batch_id=2)
    story.change("five", op="r", transaction_id=None)
    story.change("six", op="c", after=None, problem="row_not_read")
    story.shapes.append({"shape_id": 1})
    # What xxhash64 makes of NULL is no shape.
    for offset, shape in ((0, 1), (1, 42), (3, None)):
        story.record(offset, shape_id=shape)
    story.record(4, kind="tombstone", op=None, table=None, source_name=None)
    story.quarantined.append({"offset": 2, "quarantine_id": "q"})
    return story


def bad_story() -> Story:
    """One fault per key."""
    built_with = {"id": "string", "v": "binary", "lost": "string"}
    story = Story("bad", outcomes={}, built_with=built_with, history_alone=("note",))
    story.version("truncated and open", 0)
    story.version("truncated and shown alive", 0, 9, closed_by="update")
    story.change(None, op="t", after=None)
    story.version("truncated and shown alive", 9, opened_by="update")
    story.version("no start", None)
    story.version("ends early", 10, 5)
    story.version("overlaps", 0, 10)
    story.version("overlaps", 5)
    story.version("open and not last", 0)
    story.version("open and not last", 5, 7)
    story.version("closed and current", 0, 5, is_current=True)
    story.version("gap", 0, 5, closed_by="update")
    story.version("gap", 8, opened_by="update")
    story.version("time runs back", 10, 20)
    story.version("time runs back", 2, 4)
    story.version("closed by what", 0, 5, closed_by="magic")
    story.version("no previous key", 0, opened_by="key_change")
    story.version("same id twice", 0, 5, opened_by="update", closed_by="update", position="same")
    story.version("same id twice", 5, opened_by="update", position="same")
    story.version("from nowhere", 0, traced=False)
    row = {"id": "found otherwise", "v": "another value"}
    story.version(
        "found otherwise", 0, 0, opened_by="before", closed_by="update", v="what nobody told",
        change={"op": "u", "before": row, "is_before_whole": True, "after": row | {"v": "v"}},
    )  # fmt: skip
    found = len(story.changes) - 1
    story.version("found otherwise", 0, opened_by="update", position=f"{found:020}", offset=found, traced=False, v="v")
    story.version("key of another", 0, change={"key": {"id": "another"}})
    story.version("position of another", 0, change={"position": "another"})
    story.version("transaction of another", 0, change={"transaction_id": "another"})
    story.version("value of another", 0, 5, change={"after": {"id": "value of another", "v": None}})
    story.version("exact value of another", 0, change={"exact_values": {"v": "1"}})
    story.version("exact value of no column", 0, change={"exact_values": {"w": "1"}})
    story.version("exact values unknown", 0, exact_values=None, change={"exact_values": {"v": "1"}})
    story.version("exact values unknown of none", 0, exact_values=None, change={"exact_values": {}})
    story.version("previous key of another", 0, opened_by="key_change", previous_key="1", change={"previous_key": "2"})
    story.version("id of another", 0, 5, version_id="another")
    story.version("opened by no read", 0, opened_by="snapshot")
    story.version("start unknown", 0, is_start_known=False)
    story.version("begins late", 5, change={"changed_at": at(4)})
    story.version("begins late, as the one before ends", 0, 5, closed_by="update")
    story.version("begins late, as the one before ends", 5, opened_by="update", change={"changed_at": at(4)})
    story.version("read late", 4, opened_by="snapshot", transaction_id=None, change={"op": "r", "changed_at": at(8)})
    story.change("read late", op="u", changed_at=at(6))
    story.version(SCRIPT, 0, unresolved_columns=["v"], v=None)
    story.version("infinite", 0, exact_values={"v": "infinity"})
    story.version("twice in current", 0)
    story.current.append(story.current[-1])
    story.version("ended by nothing", 0, 5, ended=None)
    story.version("ended by a change with a problem", 0, 5, ended={"problem": "row_not_read"})
    story.version("ended before", 0, 5, ended={"position": f"{0:020}"})
    story.version("ended at another time", 0, 5, ended={"changed_at": at(4)})
    story.version("ended by a delete", 0, 5, closed_by="truncate", ended={"next_key": None})
    story.version("ended by no read", 0, 5, closed_by="snapshot")
    story.version("ended by no read", 5, opened_by="update")
    story.version("ended by a read", 0, 5, closed_by="update")
    story.version("ended by a read", 5, opened_by="snapshot", transaction_id=None, change={"op": "r"})
    story.version("gone to another key", 0, 5, closed_by="key_change", next_key="1", ended={"next_key": "2"})
    story.version("ended and open", 0)
    story.change("ended and open", op="d", after=None)
    story.version("deleted and shown alive", 0, 9, closed_by="update")
    story.change("deleted and shown alive", op="d", after=None, changed_at=at(5))
    story.version("deleted and shown alive", 9, opened_by="update")
    story.version("deleted, then read", 0, 9, closed_by="snapshot")
    story.change("deleted, then read", op="d", after=None, changed_at=at(5))
    story.version("deleted, then read", 9, opened_by="snapshot", transaction_id=None, change={"op": "r"})
    story.version("empty gap called update", 0, 5, closed_by="update")
    story.change("empty gap called update", op="d", after=None, changed_at=at(5))
    story.version("empty gap called update", 5, opened_by="update")
    story.version("insert of a living row", 0, 5, closed_by="update")
    story.version("insert of a living row", 5)
    story.change("from another row than came", transaction_id="x", previous_key="2")
    story.version(
        "from another row than came", 0, opened_by="key_change", previous_key="1", transaction_id="x",
        change={"op": "u", "previous_key": None},
    )  # fmt: skip
    story.version("state passed over", 0)
    story.change("state passed over", op="u", after={"id": "state passed over", "v": "another"})
    story.version("half of a transaction", 0, 5, closed_by="update", transaction_id="half")
    story.version("half of a transaction", 5, opened_by="update", transaction_id="half")
    story.version("read begins too late", 8, opened_by="snapshot", transaction_id=None, change={"op": "r"})
    story.change("read begins too late", op="u", changed_at=at(6))
    late = {"opened_by": "snapshot", "closed_by": "update", "transaction_id": None, "change": {"op": "r"}}
    story.version("read ends too late", 8, 8, **late)
    story.version("read ends too late", 8, opened_by="update", change={"changed_at": at(6)})
    story.version("update behind a delete", 0, 5)
    story.version("update behind a delete", 7, opened_by="update")
    story.version("gone and open", 0)
    story.change("gone and open", op="d", after=None, next_key="1")
    story.version("other value", 0)
    story.current[-1] = story.current[-1] | {"v": "another"}
    story.version("not in current", 0, in_current=False)
    story.version("not in history", 0)
    story.versions.pop()
    story.change(None, offset=500, after={"id": None, "v": "v"})
    story.change("no position", position=None)
    story.change("odd op", op="x")
    story.change("no state", op="u", after=None)
    story.change("twice in the log")
    story.changes.append(story.changes[-1] | {"offset": 600})
    story.change("from the future", changed_at=at(20_000))
    story.change("no transaction", transaction_id=None)
    story.change("placeholder", unavailable_columns=["v"])
    for offset in (0, 4, 5):
        story.record(offset)
    story.record(9, shape_id=7)
    story.shapes.append({"shape_id": 1})
    story.record(4)
    story.record(1, kind="riddle")
    story.record(2, table=None)
    story.record(None)
    story.quarantined.append({"offset": 3, "quarantine_id": "q"})
    return story


def needless_story() -> Story:
    """A table with a version like the one before it, which is one only where no column of the table is lost."""
    story = Story("needless", outcomes={}, built_with={"id": "string", "v": "string"})
    story.version("again", 0, 5, closed_by="update")
    story.version("again", 5, opened_by="update", v="value of again")
    story.record(0, shape_id=None)
    return story


def secret_story() -> Story:
    """A table whose key people may not see."""
    story = Story("secret", sensitive=("id",))
    story.version(PRIVATE, 0, exact_values={"v": PRIVATE}, v=None)
    story.record(0)
    return story


def wrapped_story() -> Story:
    """A table whose key people may not see, and a column that is named as whole rows are in the log."""
    story = Story("wrapped", sensitive=("id",), value="after")
    story.change(PRIVATE, op="c")
    return story


def shown_story() -> Story:
    """A table with the same expectations, whose values people may see."""
    story = Story("shown")
    story.version(f"{SCRIPT}@", 0, v=None)
    story.record(0)
    return story
