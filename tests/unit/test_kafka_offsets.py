"""What a broker says, and how far topics are landed: what can be told without one. No Spark in it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from spark_jobs.cli import main
from spark_jobs.errors import Fault, UsageError
from spark_jobs.landing import kafka, kafka_gaps, kafka_offsets
from spark_jobs.landing.kafka_client import NO_ID, Away, Ends, Look, explained, patiently
from spark_jobs.landing.kafka_gaps import gaps_ahead, less_landed, still_stored, unread_parts
from spark_jobs.landing.kafka_offsets import (
    Gap,
    Offsets,
    beginnings,
    first_offsets,
    has_moved,
    landed_until,
    starting,
)
from spark_jobs.landing.kafka_settings import Settings
from spark_jobs.landing.land import Landed

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
TOPIC = "shop.orders"
PLACE = (TOPIC, 0)


def look(first: int = 0, end: int = 10, topic_id: str = "a", *, minutes: int = 0) -> Look:
    return Look(NOON + timedelta(minutes=minutes), {PLACE: Ends(topic_id, first, end)}, {TOPIC: topic_id})


def landed_to(next_offset: int = 10, end: int = 10, topic_id: str = "a", **more: Any) -> dict[tuple[str, int], Offsets]:
    return {PLACE: Offsets(TOPIC, 0, topic_id, next_offset, end, **more)}


def begun(
    seen: Look, before: dict[tuple[str, int], Offsets], asked: Any = "earliest"
) -> tuple[int, list[tuple[Any, ...]]]:
    """Where landing begins, and the gaps."""
    offsets = asked if isinstance(asked, dict) else {}
    found = beginnings(seen, before, first_offsets(None, seen, asked), offsets)  # type: ignore[arg-type]
    return found.offsets[PLACE].next_offset, [(one.from_offset, one.to_offset, one.reason) for one in found.gaps]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--continuous", "file"], "land takes FILES, or --kafka"),
        (["--every", "5s", "--kafka", "h:1", "--topics", "x"], "--every goes with --continuous"),
        (["--topics", "x"], "say of which cluster"),
        (["file", "--kafka", "h:1", "--topics", "x"], "takes one of both"),
        (["--kafka", "h:1"], "say which topics"),
        (["--kafka", "h", "--topics", "x"], "--kafka h: it takes addresses as host:port"),
        (["--kafka", "h:1", "--topics", "x", "--starting", "soon"], "--starting soon: it takes earliest"),
        (["--kafka", "h:1", "--topics", "x", "--patience", "0s"], "it takes a time such as 30s"),
    ],
)
def test_a_command_that_can_not_be_meant(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["land", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_password_in_an_address_is_refused_and_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["land", "--kafka", "ann:planted@h:1", "--topics", "x"]) == 2
    said = capsys.readouterr()
    assert "planted" not in said.out + said.err


@pytest.mark.parametrize(
    ("causes", "status", "words"),
    [
        ([("java.util.concurrent.ExecutionException", ""), ("x.SaslAuthenticationException", "")], 3, "_PASSWORD"),
        ([("x.SslAuthenticationException", ""), ("x.CertificateExpiredException", "NotAfter")], 3, "has expired"),
        ([("x.TopicAuthorizationException", "")], 3, "describe and read the topics"),
        ([("x.KafkaException", "Failed"), ("x.ConfigException", "No resolvable urls")], 2, "host:port"),
        ([("x.TimeoutException", "")], 3, "did not answer"),
    ],
)
def test_what_the_broker_says_becomes_what_to_do(causes: list[tuple[str, str]], status: int, words: str) -> None:
    error = explained("broker:9092", causes, "said")

    assert error.status == status
    assert words in str(error)
    assert "broker:9092" in str(error)


def test_a_broker_that_stays_away_is_given_up_and_one_that_comes_back_is_not() -> None:
    away = [Away("away")]

    def ask() -> str:
        if away:
            raise away.pop()
        return "here"

    assert patiently(ask, 5, lambda: False) == "here"
    away.append(Away("away"))
    with pytest.raises(Exception, match="was asked for 0 s"):
        patiently(ask, 0, lambda: False)


@pytest.mark.parametrize("option", ["middle", "{}x", '{"t": 5}', '{"t": {"0": -1}}', '{"t": {"0": "5"}}', "2026-13-01"])
def test_a_beginning_that_is_none(option: str) -> None:
    with pytest.raises(UsageError, match="--starting"):
        starting(option)


def test_a_beginning_is_a_word_a_time_or_offsets() -> None:
    assert starting("latest") == "latest"
    assert starting("2026-11-21T12:00:00") == NOON == starting("2026-11-21T13:00:00+01:00")
    assert starting('{"shop.orders": {"0": 5}}') == {PLACE: 5}


def test_a_first_landing_begins_where_it_is_asked_to_and_no_gap_is_before_it() -> None:
    assert begun(look(first=3), {}) == (3, [])
    assert begun(look(first=3), {}, "latest") == (10, [])
    assert begun(look(first=3), {}, {PLACE: 7}) == (7, [])


def test_a_first_landing_that_can_not_begin_where_it_is_asked_to_says_so() -> None:
    assert begun(look(first=3), {}, {PLACE: 1}) == (3, [(1, 3, "retention")])
    with pytest.raises(UsageError, match="ends at offset 10, and 11 is behind that"):
        begun(look(), {}, {PLACE: 11})


def test_a_landing_goes_on_where_it_stopped_whatever_is_asked() -> None:
    assert begun(look(), landed_to(6), "latest") == (6, [])


def test_a_partition_that_comes_later_is_read_from_its_beginning() -> None:
    before = {(TOPIC, 1): Offsets(TOPIC, 1, "a", 5, 5)}

    def begun_beside(first: int) -> tuple[int, list[tuple[int, int, str]]]:
        seen = look(first=first)
        both = Look(seen.at, {**seen.partitions, (TOPIC, 1): Ends("a", 0, 5)}, seen.topics)
        found = beginnings(both, before, {PLACE: 10}, {})
        return found.offsets[PLACE].next_offset, [(one.from_offset, one.to_offset, one.reason) for one in found.gaps]

    assert begun_beside(first=0) == (0, [])
    assert begun_beside(first=2) == (2, [(0, 2, "retention")])


def test_offsets_that_are_asked_for_pass_records_over_and_say_so() -> None:
    assert begun(look(), landed_to(6), {PLACE: 8}) == (8, [(6, 8, "skipped")])
    assert begun(look(), landed_to(6), {PLACE: 2}) == (2, [])
    assert begun(look(first=4), landed_to(6), {PLACE: 2}) == (4, [])
    assert begun(look(first=8), landed_to(6), {PLACE: 2}) == (8, [(6, 8, "retention")])
    assert begun(look(first=8), landed_to(6), {PLACE: 7}) == (8, [(6, 8, "retention")])
    assert begun(look(first=8), landed_to(6), {PLACE: 9}) == (9, [(6, 8, "retention"), (8, 9, "skipped")])
    with pytest.raises(UsageError, match="no partition 4"):
        begun(look(), landed_to(), {(TOPIC, 4): 1})


def test_what_retention_took_between_two_landings_is_a_gap() -> None:
    assert begun(look(first=8), landed_to(6)) == (8, [(6, 8, "retention")])


def test_a_topic_made_anew_is_read_from_its_beginning_and_what_its_first_life_kept_is_a_gap() -> None:
    assert begun(look(end=4, topic_id="z"), landed_to(6, 9)) == (0, [(6, 9, "topic_made_anew")])
    unseen = (9, 9, "topic_made_anew")
    assert begun(look(first=2, topic_id="z"), landed_to(9, 9)) == (2, [unseen, (0, 2, "retention")])


def test_without_ids_a_topic_made_anew_is_seen_by_fewer_records() -> None:
    before = landed_to(100, 100, NO_ID)
    assert begun(look(end=50, topic_id=NO_ID), before) == (0, [(100, 100, "topic_made_anew")])
    assert begun(look(end=100, topic_id=NO_ID), before) == (100, [])

    other = (TOPIC, 1)
    seen = look(end=50, topic_id=NO_ID)
    both = Look(seen.at, {**seen.partitions, other: Ends(NO_ID, 5, 200)}, seen.topics)
    found = beginnings(both, {**before, other: Offsets(TOPIC, 1, NO_ID, 150, 150)}, {}, {})
    assert found.offsets[other].next_offset == 5, "it may be another life, of more records"
    assert [(one.partition, one.reason) for one in found.gaps] == [(0, "topic_made_anew")]


@pytest.mark.parametrize(("before", "now", "after"), [(NO_ID, "a", "a"), ("a", NO_ID, "a"), (NO_ID, NO_ID, NO_ID)])
def test_a_broker_that_begins_to_tell_ids_or_ends_makes_no_topic_anew(before: str, now: str, after: str) -> None:
    was, seen = landed_to(6, 9, before), look(topic_id=now)

    assert begun(seen, was) == (6, [])
    assert not has_moved(was, seen)
    landed, gaps = landed_until(was, {PLACE: 10}, [came(4, 6)], seen)
    assert (landed[PLACE].next_offset, landed[PLACE].topic_id, gaps) == (10, after, [])
    assert beginnings(seen, was, {}, {}).offsets[PLACE].topic_id == after

    shorter = look(end=4, topic_id=now)
    assert begun(shorter, was) == (0, [(6, 9, "topic_made_anew")])
    assert has_moved(was, shorter)
    beside = Look(NOON, {(TOPIC, 1): Ends(now, 2, 5)}, {TOPIC: now})
    [gap] = beginnings(beside, {PLACE: was[PLACE]}, {(TOPIC, 1): 5}, {}).gaps
    assert (gap.partition, gap.from_offset, gap.to_offset) == (1, 0, 2), "a partition of a topic that is followed"


def test_a_topic_that_is_gone_leaves_a_gap_once() -> None:
    gone = Look(NOON, {}, {})

    found = beginnings(gone, landed_to(6, 9), {}, {})
    after = found.offsets
    assert [(one.from_offset, one.to_offset, one.records, one.reason) for one in found.gaps] == [
        (6, 9, None, "topic_gone")
    ]
    assert found.gaps[0].line == (
        "shop.orders, partition 0: records from offset 6 on, of which 3 were seen, were not landed when the topic was"
        " deleted, or no longer shown to this user."
    )
    assert after[PLACE].is_gone
    assert after[PLACE].lag_records is None
    assert beginnings(gone, after, {}, {}).gaps == []
    assert beginnings(look(topic_id="z"), after, {}, {}).gaps == []


SHOWN_AGAIN = landed_to(6, 9, is_gone=True)


@pytest.mark.parametrize(
    ("before", "start", "reason", "gap", "left"),
    [
        (SHOWN_AGAIN, None, "topic_gone", (6, 9), []),
        (SHOWN_AGAIN, 8, "topic_gone", (6, 9), [(6, 8)]),
        (landed_to(9), 2, "skipped", (4, 8), []),
        (landed_to(9), 5, "skipped", (4, 8), [(4, 5)]),
        (landed_to(9), 8, "skipped", (4, 8), None),
        (landed_to(6), None, "skipped", (6, 8), []),  # a run was killed before it passed over them
        (landed_to(6), None, "topic_gone", (6, 9), []),
        (landed_to(8), None, "skipped", (6, 8), None),
        (landed_to(6), None, "retention", (6, 8), None),
        ({}, None, "skipped", (4, 8), []),  # how far it was landed is lost
    ],
)
def test_a_gap_is_none_where_its_records_are_landed_after_all(
    before: dict[tuple[str, int], Offsets],
    start: int | None,
    reason: str,
    gap: tuple[int, int],
    left: list[tuple[int, int]] | None,
) -> None:
    stored = Gap(TOPIC, 0, "a", *gap, None, reason)
    begin = beginnings(look(), before, {PLACE: 0}, {} if start is None else {PLACE: start}).offsets
    ahead = gaps_ahead([stored], before, begin)
    landed = {PLACE: replace(begin[PLACE], next_offset=10)}
    assert [[(one.from_offset, one.to_offset) for one in parts] for parts in
            unread_parts(ahead, begin, landed, []).values()] == ([] if left is None else [left])  # fmt: skip
    assert gaps_ahead([replace(stored, topic_id="z")], before, begin) == [], "of another life"


@pytest.mark.parametrize(
    ("begin", "end", "lost", "left"),
    [
        (0, 3, [], None),
        (2, 6, [], [(6, 8)]),
        (5, 7, [], [(4, 5), (7, 8)]),
        (7, 9, [], [(4, 7)]),
        (2, 9, [], []),
        (2, 9, [(2, 6)], [(4, 6)]),
        (2, 9, [(9, 12)], []),
        (5, 5, [], None),
    ],
)
def test_of_a_gap_is_left_what_a_batch_has_not_read(
    begin: int, end: int, lost: list[tuple[int, int]], left: list[tuple[int, int]] | None
) -> None:
    gap = Gap(TOPIC, 0, "a", 4, 8, 3, "skipped")
    found = unread_parts(
        [gap], landed_to(begin), landed_to(end), [Gap(TOPIC, 0, "a", *one, None, "retention") for one in lost]
    )
    assert found == ({} if left is None else {
        gap: [Gap(TOPIC, 0, "a", low, high, min(3, high - low), "skipped") for low, high in left]
    })  # fmt: skip


@pytest.mark.parametrize(
    ("held", "left", "left_open"),
    [
        ([], [(4, 8)], [(4, 8)]),
        ([(4, 8)], [], [(8, 8)]),
        ([(5, 6)], [(4, 5), (6, 8)], [(4, 5), (6, 8)]),
        ([(4, 5), (7, 8)], [(5, 7)], [(5, 7), (8, 8)]),
        ([(2, 6), (9, 12)], [(6, 8)], [(6, 9), (12, 12)]),
        ([(8, 10)], [(4, 8)], [(4, 8), (10, 10)]),
    ],
)
def test_of_a_gap_is_left_what_bronze_does_not_have(
    held: list[tuple[int, int]], left: list[tuple[int, int]], left_open: list[tuple[int, int]]
) -> None:
    def told(records: int | None) -> list[tuple[int, int, int | None]]:
        parts = kafka_gaps._without(Gap(TOPIC, 0, "a", 4, 8, records, "topic_gone"), held)
        return [(one.from_offset, one.to_offset, one.records) for one in parts]

    assert told(3) == [(low, high, min(3, high - low)) for low, high in left]
    whole = [(low, high, high - low) for low, high in left_open[:-1]]
    assert told(None) == [*whole, (*left_open[-1], None)], "behind its end there may have been more"


def test_gaps_of_a_topic_that_is_still_gone_and_of_an_earlier_life_stay() -> None:
    gone, gap = Look(NOON, {}, {}), Gap(TOPIC, 0, "a", 6, 9, None, "topic_gone")
    found = beginnings(gone, SHOWN_AGAIN, {}, {})
    assert gaps_ahead([gap], SHOWN_AGAIN, found.offsets) == []
    ends = beginnings(gone, landed_to(6, 9), {}, {})
    assert gaps_ahead([gap], landed_to(6, 9), ends.offsets) == []
    anew = beginnings(look(topic_id="z"), SHOWN_AGAIN, {}, {})
    assert gaps_ahead([gap], SHOWN_AGAIN, anew.offsets) == []

    unnamed, before = Gap(TOPIC, 0, NO_ID, 6, 9, None, "topic_gone"), landed_to(6, 9, NO_ID, is_gone=True)
    shown = beginnings(look(topic_id=NO_ID), before, {}, {})
    assert gaps_ahead([unnamed], before, shown.offsets) == [unnamed]
    other = beginnings(look(end=4, topic_id=NO_ID), before, {}, {})
    assert gaps_ahead([unnamed], before, other.offsets) == []
    later = beginnings(look(end=5, topic_id=NO_ID), other.offsets, {}, {})
    assert gaps_ahead([unnamed], other.offsets, later.offsets) == [], "it may be of the life before"


def test_a_topic_that_another_pattern_names_is_left_as_it_is() -> None:
    others = Look(NOON, {}, {TOPIC: "a"})

    found = beginnings(others, landed_to(6, 9), {}, {})
    assert (found.offsets, found.gaps) == (landed_to(6, 9), [])
    assert not has_moved(landed_to(6), others)


def test_a_query_can_go_on_while_topics_are_what_they_were() -> None:
    assert not has_moved(landed_to(6), look(first=8))
    assert has_moved(landed_to(6), look(topic_id="z"))
    assert has_moved(landed_to(6), look(end=3))
    assert has_moved(landed_to(6), Look(NOON, {}, {}))


def came(lines: int, first: int, newest: datetime | None = None) -> dict[str, Any]:
    return {"topic": TOPIC, "partition": 0, "lines": lines, "first": first, "newest": newest}


@pytest.mark.parametrize(
    ("rows", "first", "gaps"),
    [
        ([came(4, 6)], 0, []),
        ([came(3, 6)], 0, []),  # compacted, or a mark of a transaction: retention took nothing
        ([came(2, 8)], 8, [(6, 8, 2)]),
        ([came(2, 8)], 9, [(6, 8, 2)]),  # the log lost more after these were read
        ([came(3, 6)], 8, [(6, 8, 1)]),  # it went while the batch was read
        ([], 10, [(6, 10, 4)]),
        ([], 12, [(6, 10, 4)]),
    ],
)
def test_what_retention_took_out_of_a_batch(rows: list[Any], first: int, gaps: list[tuple[int, int, int]]) -> None:
    after, found = landed_until(landed_to(6), {PLACE: 10}, rows, look(first=first, end=12))

    assert after[PLACE].next_offset == 10
    assert after[PLACE].lag_records == 2
    assert [(one.from_offset, one.to_offset, one.records) for one in found] == gaps


def test_a_topic_that_a_running_landing_meets_begins_with_what_the_broker_has() -> None:
    after, gaps = landed_until({}, {PLACE: 10}, [came(4, 6)], look(first=6, end=12))
    assert (after[PLACE].next_offset, gaps) == (10, [])
    unread, gaps = landed_until({}, {}, [], look(first=6, end=12))
    assert (unread[PLACE].next_offset, gaps) == (6, [])

    beside = {(TOPIC, 1): Offsets(TOPIC, 1, "a", 5, 5)}
    _, [gap] = landed_until(beside, {PLACE: 10}, [came(4, 6)], look(first=6, end=12))
    assert (gap.from_offset, gap.to_offset) == (0, 6), "a partition that a topic is given is followed from its birth"


def test_lag_is_none_while_there_is_nothing_to_land_and_at_most_since_then() -> None:
    before = landed_to(10, newest_at=NOON - timedelta(days=1))

    idle, _ = landed_until(before, {}, [], look(end=10))
    behind, _ = landed_until(idle, {}, [], look(end=11, minutes=2))
    assert [idle[PLACE].lag_seconds, behind[PLACE].lag_seconds] == [0, 120]
    assert behind[PLACE].lag_records == 1

    ahead, _ = landed_until(before, {PLACE: 11}, [came(1, 10, NOON + timedelta(hours=2))], look(end=12))
    waits, _ = landed_until(ahead, {}, [], look(end=12, minutes=2))
    assert waits[PLACE].lag_seconds == 120, "by a producer's clock that is ahead it would not have waited yet"

    set_back = landed_to(10, newest_at=NOON, caught_up_at=NOON + timedelta(days=1), open_since=NOON + timedelta(days=1))
    waits, idle = (landed_until(set_back, {}, [], look(end=end, minutes=2))[0] for end in (11, 10))
    assert waits[PLACE].lag_seconds == 120, "our own clock was ahead, and is not any more"
    assert idle[PLACE].lag_seconds == 0


def test_a_transaction_that_stays_open_is_no_end_and_those_that_come_and_go_are() -> None:
    def landed(
        before: dict[tuple[str, int], Offsets], minutes: int, until: int, end: int, *, is_open: bool = True
    ) -> dict[tuple[str, int], Offsets]:
        now = look(end=end, minutes=minutes)
        now = Look(now.at, {PLACE: Ends("a", 0, end, is_open)}, now.topics)
        return landed_until(before, {PLACE: until}, [], now)[0]

    first = landed(landed_to(10, caught_up_at=NOON - timedelta(days=1)), 0, 10, 10)
    other = landed(first, 5, 12, 12)
    assert [one[PLACE].lag_seconds for one in (first, other)] == [0, 0]

    hangs = landed(other, 20, 12, 12)
    assert (hangs[PLACE].lag_records, hangs[PLACE].lag_seconds) == (0, 15 * 60)
    assert hangs[PLACE].caught_up_at == NOON + timedelta(minutes=5)
    ended = landed(hangs, 21, 12, 15, is_open=False)
    assert (ended[PLACE].lag_records, ended[PLACE].lag_seconds) == (3, 16 * 60), "what was behind it has waited, too"
    assert landed(hangs, 21, 12, 12, is_open=False)[PLACE].lag_seconds == 0


def test_what_is_left_of_one_gap_comes_with_those_that_overlap_it(monkeypatch: pytest.MonkeyPatch) -> None:
    skipped = Gap(TOPIC, 0, "a", 100, 200, 100, "skipped")
    gone = replace(skipped, from_offset=150, to_offset=300, records=None)
    apart = replace(gone, partition=1)
    places: Any = SimpleNamespace(table=lambda *_: "")
    monkeypatch.setattr(kafka_gaps, "is_table", lambda *_: True)
    monkeypatch.setattr(kafka_gaps, "stored", lambda *_: ({}, None))
    monkeypatch.setattr(kafka_gaps, "stored_gaps", lambda *_: [])
    monkeypatch.setattr(kafka_gaps, "_held", lambda *_: {PLACE: [(120, 150)]})

    parts = less_landed(None, places, "default", [skipped, gone, apart])

    left = [(100, 120, 20), (150, 200, 50)]
    told = {gap: [(one.from_offset, one.to_offset, one.records) for one in of] for gap, of in parts.items()}
    assert told == {skipped: left, gone: [(150, 300, None)]}, "the part at 150 would hide where the other gap ends"


@pytest.mark.parametrize(
    ("records", "stored", "is_its"),
    [
        (4, (4, 8), True),
        (4, (6, 8), True),
        (4, (6, 9), False),
        (None, (6, 9), True),
        (4, (3, 8), False),
    ],
)
def test_a_landing_goes_on_with_the_gaps_that_files_have_left(
    records: int | None, stored: tuple[int, int], is_its: bool
) -> None:
    ahead = Gap(TOPIC, 0, "a", 4, 8, records, "skipped")
    there = Gap(TOPIC, 0, "a", *stored, 1, "skipped")
    others = [replace(there, topic_id="b"), replace(there, partition=1), replace(there, reason="retention")]

    assert still_stored([ahead], [*others, there]) == [there] * is_its


@pytest.fixture
def landing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A landing that has landed offsets before 6, at a broker that retention has left 8 and 9; without Spark."""
    monkeypatch.setattr(kafka_gaps, "less_landed", lambda *_: {})
    broker = SimpleNamespace(look=lambda: look(first=8), has=lambda _: True, cleanup_policies=lambda _: {})
    topics = kafka.Topics("h:1", "x", Settings())
    nothing: Any = None
    return kafka._Stream(
        nothing, nothing, topics, "run", "default", nullcontext, threading.Event(), broker,  # type: ignore[arg-type]
        offsets=landed_to(6), has_begun=True,
    )  # fmt: skip


def test_a_gap_that_could_not_be_stored_is_found_again(landing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[tuple[str, Any]] = []
    failing = [Fault("the store was away")]

    def store_gaps(*arguments: Any) -> None:
        if failing and arguments[-1]:
            raise failing.pop()
        stored.append(("gaps", [(one.from_offset, one.to_offset) for one in arguments[-1]]))

    def land_rows(*_: Any, check: Any, **__: Any) -> Landed:
        check([came(2, 8)])
        return Landed(read=2, feeds=Counter({TOPIC: 2}))

    monkeypatch.setattr(kafka_gaps, "store_gaps", store_gaps)
    monkeypatch.setattr(
        kafka_offsets, "store", lambda *arguments: stored.append(("offsets", arguments[-1][PLACE].next_offset))
    )
    monkeypatch.setattr(kafka_gaps, "stored_gaps", lambda *_: [])
    monkeypatch.setattr(kafka, "land_rows", land_rows)
    monkeypatch.setattr(kafka, "_as_records", lambda *_: None)
    monkeypatch.setattr(kafka, "_planned", lambda *_: {PLACE: 10})
    rows = SimpleNamespace(sparkSession=SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None)))

    with pytest.raises(Fault, match="the store was away"):
        landing.land(rows, 0, "")
    assert landing.result.landed.landed == 2, "bronze has them"
    assert landing.offsets[PLACE].next_offset == 6
    assert landing.result.gaps == []

    landing.begin("earliest")
    assert stored == [("gaps", [(6, 8)]), ("offsets", 8)]
    landing.land(rows, 1, "")
    assert stored[2:] == [("gaps", []), ("offsets", 10)]
    assert [(one.from_offset, one.to_offset) for one in landing.result.gaps] == [(6, 8)]


def test_a_gap_stays_until_its_records_are_landed(landing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[tuple[str, Any]] = []

    def note(module: Any, name: str, of: Callable[[Any], Any]) -> None:
        monkeypatch.setattr(module, name, lambda *arguments: stored.append((name, of(arguments[-1]))))

    def land_rows(*_: Any, check: Any, **__: Any) -> Landed:
        check([came(2, 8)])
        return Landed(read=2, feeds=Counter({TOPIC: 2}))

    def ranges(gaps: Sequence[Gap]) -> list[tuple[int, int]]:
        return [(one.from_offset, one.to_offset) for one in gaps]

    note(kafka_offsets, "store", lambda offsets: offsets[PLACE].next_offset)
    note(kafka_gaps, "store_gaps", ranges)
    note(kafka_gaps, "put_parts", lambda parts: [(*ranges([gap]), ranges(left)) for gap, left in parts.items()])
    gaps = [Gap(TOPIC, 0, "a", begin, 9, None, "topic_gone") for begin in (9, 6)]
    monkeypatch.setattr(kafka_gaps, "stored_gaps", lambda *_: gaps)
    monkeypatch.setattr(kafka, "land_rows", land_rows)
    monkeypatch.setattr(kafka, "_as_records", lambda *_: None)
    monkeypatch.setattr(kafka, "_planned", lambda *_: {PLACE: 10})
    landing.offsets = SHOWN_AGAIN

    landing.begin("earliest")
    # Of one behind which nobody saw a record nothing has to be landed. Retention took 6 and 7 meanwhile.
    assert stored == [("put_parts", [((9, 9), [])]), ("store_gaps", [(6, 8)]), ("store", 8)]
    stored.clear()
    del gaps[0]
    landing.land(SimpleNamespace(sparkSession=SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None))), 0, "")
    assert stored == [("put_parts", [((6, 9), [(6, 8)])]), ("store_gaps", []), ("store", 10)]


@pytest.mark.parametrize(
    ("failed", "said", "is_passed_over"),
    [
        (None, "Records of h:1 could not be read: it ended", True),
        (ValueError("fetching the next record"), "Records of h:1 could not be read: it ended", True),
        (ValueError("of 'planted'"), "Records of h:1 could not be landed: ValueError: of …. What was landed is", False),
    ],
)
def test_only_where_records_could_not_be_read_passing_them_over_is_advised(
    landing: Any, monkeypatch: pytest.MonkeyPatch, failed: Exception | None, said: str, is_passed_over: bool
) -> None:
    def ends(_: float) -> bool:
        landing.failed = failed
        raise PySparkException("it ended")

    monkeypatch.setattr(kafka._Stream, "checkpoint", lambda _: nullcontext(""))
    monkeypatch.setattr(kafka._Stream, "query", lambda *_: SimpleNamespace(awaitTermination=ends, isActive=False))

    with pytest.raises(Fault) as fault:
        landing.stream()
    assert str(fault.value).startswith(said)
    assert ("--starting" in str(fault.value)) == is_passed_over
