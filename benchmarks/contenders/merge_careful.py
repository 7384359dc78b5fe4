"""Hand MERGE, careful: every change of a batch in the order of positions, without redeliveries and changes of nothing.

What is not newer than all that a key's versions have seen is stale and dropped: a late change does not reach history.
A version keeps the position it began at, and the one it ended at from then on, so that what comes again does not bring
a deleted row back. One MERGE closes and inserts, its inserts under a key that matches nothing.
"""

from __future__ import annotations

from benchmarks.contenders.lake import ROW, Merging
from benchmarks.workload import COLUMNS

_STAGED = f"""
    with seen as (
        select id, max(lsn) as seen_lsn from {{history}} group by id
    ),
    open as (
        select id, struct({", ".join(ROW)}) as open_row from {{history}} where is_current
    ),
    placed as (
        select changes.*, open_row, lag(lsn) over (partition by id order by lsn) as previous_lsn
        from {{changes}} as changes left join seen using (id) left join open using (id)
        where lsn > coalesce(seen_lsn, 0)
    ),
    followed as (
        select *,
            coalesce(lag(op) over by_position, if(open_row is null, 'd', 'u')) as previous_op,
            if(
                lag(op) over by_position is null, open_row, lag(struct({", ".join(ROW)})) over by_position
            ) as previous_row
        from placed where lsn is distinct from previous_lsn
        window by_position as (partition by id order by lsn)
    ),
    told as (
        select *,
            lead(changed_at) over by_position as valid_to,
            coalesce(lead(lsn) over by_position, lsn) as newest_lsn,
            row_number() over by_position = 1 and open_row is not null as is_closing
        from followed
        where if(op = 'd', previous_op <> 'd', previous_op = 'd'
            or previous_row is distinct from struct({", ".join(ROW)}))
        window by_position as (partition by id order by lsn)
    )
    select id as merge_id, * except (is_closing, open_row, previous_lsn, previous_op, previous_row)
    from told where is_closing
    union all
    select null as merge_id, * except (is_closing, open_row, previous_lsn, previous_op, previous_row)
    from told where op <> 'd'
"""
_NAMES = [*COLUMNS, "valid_from", "valid_to", "lsn", "is_current"]
_VALUES = [*(f"staged.{name}" for name in COLUMNS), "changed_at", "staged.valid_to", "staged.newest_lsn"]
_MERGE = f"""
    merge into delta.`{{table}}` as history
    using {{staged}} as staged on history.id = staged.merge_id and history.is_current
    when matched then update set valid_to = staged.changed_at, lsn = staged.lsn, is_current = false
    when not matched then insert ({", ".join(_NAMES)}) values ({", ".join(_VALUES)}, staged.valid_to is null)
"""


class MergeCareful(Merging):
    """The history is merged into."""

    own = "valid_from timestamp, valid_to timestamp, lsn bigint, is_current boolean"
    staged = _STAGED
    merge = _MERGE


open_contender = MergeCareful
