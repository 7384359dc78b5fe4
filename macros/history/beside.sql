{#-
  Steps up to `every_change`: the key's own changes, and what else a key meets on its way:

  - a change of key that was written as one `u` has two halves (R14);
  - a truncate ends every state that stands at its place, a complete snapshot those that it did not read, where the
    model says that it may;
  - the first change of a key found a state, where `before` is the whole row.

  Owns R15, R16 and R19.
-#}
{% macro beside_steps(scope, declared) -%}
{%- set hazards = scope.hazards -%}
{%- set closes = declared.snapshot_deletes == 'close' and hazards.reads -%}
{%- if hazards.moves -%}
halves as (

    {{ halves('own_changes') }}

),
{% endif -%}
{%- set own = 'halves' if hazards.moves else 'own_changes' -%}
{%- if hazards.truncates or closes %}
ends as (

    {{ ends(scope, truncates=hazards.truncates, snapshots=closes) }}

),
{% endif -%}
{%- if hazards.truncates or closes or hazards.whole_before %}
neighbours as (

    select
        {{ own }}.*,
        {%- if hazards.leaves or hazards.moves %}
        -- what leaves behind an arrival can be the row from before, which no step has put in its place yet
        if({{ is_left() }}, lead(place, 2) over by_place, lead(place) over by_place) as next_place,
        {%- else %}
        lead(place) over by_place as next_place,
        {%- endif %}
        lag(place) over by_place is null as is_first
        {%- if hazards.truncates or closes %},
        ends.ends
        {%- endif %}
    from {{ own }}
    {%- if hazards.truncates or closes %}
    cross join ends
    {%- endif %}
    window by_place as (partition by key order by place)

),

every_change as (

    select step.*
    from neighbours
    lateral view explode(array_compact(array(
        {%- if hazards.whole_before %}
        if(is_first and before is not null and previous_key is null and op in ('u', 'd'), {{ step('neighbours', 'key', {
            'place': place('neighbours', rank=0), 'op': "'b'", 'is_state': 'true', 'state': 'before', 'transaction_id': 'null',
            'next_key': 'null', 'unavailable_columns': 'cast(array() as array<string>)',
            'exact_values': 'cast(map() as map<string, string>)'
        }) }}, null),
        {%- endif %}
        {{ step('neighbours', 'key') }}
        {%- if hazards.truncates or closes %},
        {#- A carried version stands for what truncates before the news have left. -#}
        {%- set end = 'try_element_at(filter(ends, ' ~ reaches() ~ '), 1)' %}
        get(transform(filter(array({{ end }}), stop -> is_state and not {{ is_carried() }} and stop is not null), stop -> {{ step('neighbours', 'key', {
            'place': 'stop.place', 'change_id': 'stop.change_id', 'op': 'stop.op', 'transaction_id': 'stop.transaction_id',
            'changed_at': 'stop.changed_at', 'is_read': "stop.op = 'r'", 'is_state': 'false', 'state': 'null',
            'previous_key': 'null', 'next_key': 'null', 'position': 'stop.place.position', 'topic': 'stop.place.topic',
            'partition': 'stop.place.`partition`', 'offset': 'stop.place.`offset`'
        }) }}), 0)
        {%- endif %}
    ))) exploded as step

)
{%- else %}
every_change as (

    select * from {{ own }}

)
{%- endif -%}
{%- endmacro %}


{#-
  What becomes of what a complete snapshot lacks, as a history declares it. Of documents it is always ignored: nothing
  tells which of them a snapshot read.
-#}
{% macro snapshot_deletes_of(table, declared) -%}
    {{ return('ignore' if table.documents else declared.snapshot_deletes) }}
{%- endmacro %}


{#- Expression: a change as a struct, with some of its fields replaced. -#}
{% macro step(relation, key, replaced={}) -%}
    named_struct(
        'key', {{ key }},
        {%- for name in [
            'place', 'change_id', 'op', 'transaction_id', 'changed_at', 'is_read', 'is_state', 'state', 'before',
            'unavailable_columns', 'absent_columns', 'exact_values', 'previous_key', 'is_pair', 'next_key', 'position',
            'topic', 'partition', 'offset'
        ] %}
        '{{ name }}', {{ replaced.get(name, relation ~ '.' ~ quoted(name)) }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
{%- endmacro %}


{#-
  Query: one row, the places in the log that end states of keys without a change of their own, in order.

  Args:
      truncates, snapshots: which of them: truncates (R15), complete snapshots at the place of their last read (R16)
-#}
{% macro ends(scope, truncates=false, snapshots=false) -%}
    select sort_array(collect_list(struct(place, op, change_id, transaction_id, changed_at))) as ends
    from (
        {{ truncates_of(scope) if truncates }}
        {{- ' union all ' if truncates and snapshots }}
        {{- complete_snapshots(scope) if snapshots }}
    ) as ending
{%- endmacro %}


{#-
  Step: the complete snapshots that an account looks at, where it does. Keys alone and the others have one: `alone_steps`, which
  come first, write it for both.
-#}
{% macro snapshot_ends_step(scope) -%}
{%- if scope.account and scope.account.ends -%}
snapshot_ends as (

    {{ ends(scope, snapshots=true) }}

),

{% endif -%}
{%- endmacro %}


{#- Query: the truncates of a log. -#}
{% macro truncates_of(scope) -%}
        select
            {{ place('log') }} as place,
            op,
            change_id,
            transaction_id,
            changed_at
        from {{ scope.log }} as log
        where op = 't' and problem is null
{%- endmacro %}


{#-
  Query: the last read of each complete snapshot of a log: of one whose reads could all be understood, and of which as many are
  there as a notification tells or, where none does, one is marked as the last and no other can have been lost on the way
  (`snapshots_in_doubt`).
-#}
{% macro complete_snapshots(scope) -%}
        select last_read.*
        from (
            select max(
                struct({{ place('log') }} as place, op, change_id, transaction_id, changed_at)
            ) filter (where problem is null) as last_read
            from {{ scope.log }} as log
            where {{ is_snapshot_read() }} and position is not null
            group by position
            having bool_or(problem is null) and bool_and(problem is null or {{ is_of_no_key(scope.key) }})
                and {{ has_all_reads(scope) }}
        ) as complete_snapshots
{%- endmacro %}


{#- Condition over the reads at one position: whether they are all that their snapshot has. -#}
{% macro has_all_reads(scope) -%}
    {%- set is_marked = 'bool_or(' ~ marks_last() ~ ')'
        ~ (' and position not in (' ~ text_list(scope.in_doubt) ~ ')' if scope.in_doubt) -%}
    {%- set as_told = [] -%}
    {%- for scan in scope.scans -%}
        {%- do as_told.append(
            'if(min(processed_at) >= timestamp_millis(' ~ scan[0] ~ ') and max(processed_at) <= timestamp_millis('
            ~ scan[1] ~ '), count(*) >= ' ~ scan[2] ~ ', null)'
        ) -%}
    {%- endfor -%}
    {{ 'coalesce(array_max(array_compact(array(' ~ as_told | join(', ') ~ '))), ' ~ is_marked ~ ')' if as_told else is_marked }}
{%- endmacro %}


{#- Condition: whether a row says of all columns of the key that they are NULL: it is no key's, and hides none. -#}
{% macro is_of_no_key(key) -%}
    (
        problem = 'key_not_told' and after is not null
        and not arrays_overlap(concat(absent_columns, unavailable_columns), {{ text_array(key) }})
    )
{%- endmacro %}


{#- Lambda: whether a place in the log ends the state that stands before it; a snapshot spares what it has read. -#}
{% macro reaches() -%}
    stop -> stop.place > place and (next_place is null or stop.place < next_place)
        and (stop.op = 't' or not is_read or position != stop.place.position)
{%- endmacro %}
