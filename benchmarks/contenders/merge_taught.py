"""Hand MERGE the way it is taught: the newest change of each key in the batch, by its time, and one MERGE.

The MERGE closes the open version where the row differs or is deleted, and inserts under a key that matches nothing.
"""

from __future__ import annotations

from benchmarks.contenders.lake import ROW, Merging
from benchmarks.workload import COLUMNS

_STAGED = f"""
    with numbered as (
        select *, row_number() over (partition by id order by changed_at desc) as number from {{changes}}
    ),
    newest as (
        select * except (number) from numbered where number = 1
    ),
    open as (
        select * from {{history}} where is_current
    )
    select newest.id as merge_id, newest.* from newest
    union all
    select null as merge_id, newest.*
    from newest inner join open on newest.id = open.id
    where newest.op <> 'd' and not ({" and ".join(f"newest.{name} <=> open.{name}" for name in ROW)})
"""
_CHANGED = " or ".join(f"not (history.{name} <=> staged.{name})" for name in ROW)
_NAMES = [*COLUMNS, "valid_from", "is_current"]
_VALUES = [*(f"staged.{name}" for name in COLUMNS), "staged.changed_at", "true"]
_MERGE = f"""
    merge into delta.`{{table}}` as history
    using {{staged}} as staged on history.id = staged.merge_id and history.is_current
    when matched and (staged.op = 'd' or {_CHANGED}) then update set valid_to = staged.changed_at, is_current = false
    when not matched and staged.op <> 'd' then insert ({", ".join(_NAMES)}) values ({", ".join(_VALUES)})
"""


class MergeTaught(Merging):
    """The history is merged into."""

    own = "valid_from timestamp, valid_to timestamp, is_current boolean"
    staged = _STAGED
    merge = _MERGE


open_contender = MergeTaught
