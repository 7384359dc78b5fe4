"""Full rebuild in DuckDB that knows what this workload holds: truncates, values left out, rows that change their key.

Written for these files: what else the history contract has (other connectors and forms, new logs, transactions,
snapshots that disagree, types) isn't in it. It shows what being right costs at least.
"""

from __future__ import annotations

import json

from benchmarks.contenders.rebuild_duckdb import ENVELOPE, NAMES, ROW, VERSIONS, RebuildDuckDB
from benchmarks.workload import PLACEHOLDER

_HEADERS = json.dumps([{"key": "VARCHAR", "value": "VARCHAR"}])
_SENT = ", ".join(name for name in NAMES if name != "note")


class RebuildDuckDBRules(RebuildDuckDB):
    """The rebuild, with more steps before its last."""

    query = f"""
    with recursive records as (
        select from_json(value, '{ENVELOPE}') as change, from_json(headers, '{_HEADERS}') as headers
        from read_json(?, columns = {{value: 'VARCHAR', headers: 'JSON'}}, format = 'newline_delimited')
        where value is not null
    ),
    streamed as (
        select coalesce(change.after.id, change.before.id) as id, change.op, change.source.lsn,
            change.source.ts_us as valid_from, {ROW},
            cast(list_filter(headers, one -> one.key = '__debezium.oldkey')[1].value ->> 'id' as bigint) as old_id
        from records
    ),
    rows as (
        select * from streamed where id is not null
        qualify lsn is distinct from lag(lsn) over (partition by id order by lsn)
    ),
    lives as (
        select *, count(*) filter (op in ('c', 'r')) over (partition by id order by lsn) as life from rows
    ),
    marked as (
        select *, count(*) filter (op <> 'd' and note is distinct from '{PLACEHOLDER}') over of_life as known
        from lives window of_life as (partition by id, life order by lsn)
    ),
    carried as (
        select *, first_value(note) over (partition by id, life, known order by lsn) as known_note from marked
    ),
    ends as (
        select id, life, lsn, known, known_note from carried where op = 'd'
    ),
    links as (
        select child.id, child.life, parent.id as parent_id, parent.life as parent_life, parent.known, parent.known_note
        from carried as child inner join ends as parent on child.old_id = parent.id and child.lsn = parent.lsn
    ),
    starts as (
        select id, life, known_note as start_note from links where known > 0
        union all
        select links.id, links.life, starts.start_note
        from links inner join starts on links.parent_id = starts.id and links.parent_life = starts.life
        where links.known = 0
    ),
    filled as (
        select id, op, lsn, valid_from, {_SENT},
            if(note = '{PLACEHOLDER}', if(known > 0, known_note, start_note), note) as note
        from carried left join starts using (id, life)
    ),
    truncates as (
        select lsn, valid_from from streamed where op = 't'
    ),
    placed as (
        select *, hash({", ".join(NAMES)}) as state from filled
        union all by name
        select distinct rows.id, 'd' as op, truncates.lsn, truncates.valid_from
        from rows inner join truncates on rows.lsn < truncates.lsn
    ),
    {VERSIONS}
    """


open_contender = RebuildDuckDBRules
