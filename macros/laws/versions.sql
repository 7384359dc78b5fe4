{#-
  Query: the versions that no change opened as they say, as {key, version_id}. It asks nothing of dbt: a test of dbt and a law
  of Great Expectations take it alike (spark_jobs/macro_queries.py).

  A version begins with its change, or at the key's boundary before it (R10): where a delete or the like closed the version
  before that is the end of it, else its beginning. What a read began can have moved back: `unexplained_ends` asks how far. What a
  first change found (R19) was another change's state, and is told with the last of the transaction (R11): a truncate too,
  or a change of key that was written as one (R14). Values are those of the change where it tells them (R7); of documents
  inserts and reads alone are whole.

  Args:
      columns: [{name, type}], those of the history that the changes have too
      names: own column → its name in the history
      table: {source, key, documents}, as the changes model declares them
      declared: {track, ignore, reselected, snapshot_deletes}, as far as the history's model says so
-#}
{% macro unexplained_versions(history, changes, columns, names, table, declared) -%}
{#- What were built apart can have keys of other types. -#}
{%- set is_of_its_key = key_text('versions.key') ~ ' = ' ~ key_text('changes.key') -%}
{%- set compared = [] -%}
{%- set ignored = [] -%}
{%- do sort_columns(columns, names, table, declared, compared, ignored) -%}
select
    versions.key,
    versions.version_id
from (
    select
        *,
        {{ hash_of_version(table.source) }} as usual_id,
        {{ hash_of_version(table.source, is_again=true) }} as id_of_another,
        lag(struct(valid_from, valid_to, closed_by)) over (partition by key order by place) as former
    from (
        {{ stored_versions(history, columns, names, table) }}
    ) as stored
) as versions
left anti join {{ changes }} as changes
    on versions.opening.topic = changes.topic
    and versions.opening.`partition` = changes.`partition`
    and versions.opening.`offset` = changes.`offset`
    and versions.opening.position <=> changes.position
    and versions.transaction_id <=> changes.transaction_id
    and versions.version_id in (versions.usual_id, versions.id_of_another)
    and versions.is_start_known = ({{ is_start_known('versions.opened_by') }})
    and (
        coalesce(versions.valid_from = changes.changed_at, true)
        or (
            versions.valid_from > changes.changed_at
            and (
                versions.valid_from = if({{ is_closed_by_next() }}, versions.former.valid_from, versions.former.valid_to)
                {%- if declared.get('snapshot_deletes') == 'close' %}
                -- R16: a complete snapshot that lacked the row, or the read itself, closed the one before
                or (
                    versions.former.closed_by = 'snapshot' and changes.op = 'r'
                    and versions.valid_from = versions.former.valid_to
                )
                {%- endif %}
            )
        )
        or (versions.valid_from < changes.changed_at and changes.op = 'r')
    )
    and if(
        versions.opened_by = 'before',
        changes.op = 't' or {{ is_of_its_key }} or (changes.op = 'u' and changes.previous_key is not null),
        {{ is_of_its_key }}
        and (versions.opened_by = 'snapshot') = (changes.op = 'r')
        and (
            changes.op = 'r' or changes.previous_key is null or changes.previous_key = {{ key_text('changes.key') }}
            or versions.previous_key <=> changes.previous_key
        )
        and ({{ "changes.op not in ('c', 'r') or " if table.documents }}(
            size(array_except(
                array_except(versions.unresolved_columns, changes.unavailable_columns),
                {{ text_array(ignored | map(attribute='name') | list + (declared.get('reselected') or []) | list) }}
            )) = 0
            {%- for column in compared %}
            {%- set name = text_literal(column.name) %}
            and (
                {{ comparable('versions.row.' ~ quoted(column.name), column.type) }}
                <=> {{ comparable('changes.after.' ~ quoted(column.name), column.type) }}
                or array_contains(changes.unavailable_columns, {{ name }})
            )
            {%- endfor %}
            -- few rows have any; NULL says nothing of them
            and versions.exact_values is not null
            and (
                size(versions.exact_values) + size(coalesce(changes.exact_values, map())) = 0
                or forall(
                    array_except(
                        array_union(map_keys(versions.exact_values), map_keys(coalesce(changes.exact_values, map()))),
                        {{ text_array(ignored | map(attribute='name') | list) }}
                    ),
                    name -> {{ comparable_number('versions.exact_values[name]') }}
                        <=> {{ comparable_number('changes.exact_values[name]') }}
                        or array_contains(changes.unavailable_columns, name)
                )
            )
        ))
    )
{%- endmacro %}


{#- Put the source's columns, but for the key's, into two lists: those whose change makes a version (R12), and the others. -#}
{% macro sort_columns(columns, names, table, declared, compared, ignored) -%}
    {%- set tracked = declared.get('track') -%}
    {%- for column in columns if column.name not in names.values() and column.name not in table.key -%}
        {%- set is_ignored = column.name in (declared.get('ignore') or []) or (tracked is not none and column.name not in tracked) -%}
        {%- do (ignored if is_ignored else compared).append(column) -%}
    {%- endfor -%}
{%- endmacro %}


{#- Condition: whether what opened a version is what closed the one before it (R9, R16). -#}
{% macro is_closed_by_next() -%}
    (versions.former.closed_by = 'update' or (versions.former.closed_by = 'snapshot' and changes.op = 'r'))
{%- endmacro %}


{#-
  Query: the versions that a first change found (R19) and that have other values than its `before`, as {key, version_id}. They
  name the last change of its transaction: the first that their key met in that is asked for, of those that the history
  shows. Of documents nothing is asked. It asks nothing of dbt either.

  Args:
      columns, names, table, declared, shown: as `unexplained_ends` takes them
-#}
{% macro unexplained_found(history, changes, columns, names, table, declared, shown) -%}
{%- set compared = [] -%}
{%- do sort_columns(columns, names, table, declared, compared, []) -%}
with

versions as (

    select *
    from (
        {{ stored_versions(history, columns, names, table) }}
    ) as stored
    where opened_by = 'before'

),

met as (

    select
        *,
        op in ('u', 'd') and is_before_whole and before is not null
            and (not key_met <=> {{ key_text('key') }} or {{ came_from() }} is null) as has_found
    from (
        select
            *,
            {{ place('changes') }} as place,
            explode(array_compact(array(
                {{ key_text('key') }}, {{ key_text(left_key(dict(table, columns=columns))) }}
            ))) as key_met
        from {{ changes }} as changes
        where {{ is_shown_in(shown) }} and {{ is_change_of_key({'problems': true}) }}{{ ' and false' if table.documents }}
            -- most histories have none
            and (select bool_or({{ own('opened_by', names) }} = 'before') from {{ history }})
    ) as changes_of_keys

)

select
    versions.key,
    versions.version_id
from versions
inner join met
    on {{ key_text('versions.key') }} = met.key_met
    and (
        versions.transaction_id = met.transaction_id
        or (
            versions.opening.topic = met.topic and versions.opening.`partition` = met.`partition`
            and versions.opening.`offset` = met.`offset` and versions.opening.position <=> met.position
        )
    )
group by versions.key, versions.version_id
having not min(struct(
    met.place,
    not met.has_found
    {%- for column in compared %}
    {{ 'or (' if loop.first else 'and' }} {{ comparable('versions.row.' ~ quoted(column.name), column.type) }}
    <=> {{ comparable('met.before.' ~ quoted(column.name), column.type) }}{{ ')' if loop.last }}
    {%- else %}
    or true
    {%- endfor %} as is_told
)).is_told
{%- endmacro %}


{#-
  Query: the versions that no change ended as they say, those that a change ended and that say nothing of an end, those that
  begin otherwise than their transaction tells before its last change (R11), and those of a read that begin
  before it without a change behind it that is as early (R10), or later than one behind it lets them, as {key, version_id}. It
  asks nothing of dbt either.

  Of what made no version it asks too: the last state of a transaction is that of the version in effect, and a version differs
  from the one before that an update closed (R12); none but the last state of a transaction is a version (R11).

  What ends a version stands behind its opening, and no later than that of the key's next version: a change of the key, the
  half of one `u` that tells of two keys (R14), or a truncate. It ends it at its time, or at the version's start where that is
  later (R10). A read ends a version by opening the next. Where the query can't be sure, it leaves a version out: a comment marks each
  such place and its rule.

  What is the last that its transaction tells of a key ends the version that is there, whatever follows (R9, R13): such an end
  has passed over a version that is open, or that the next state closed. It must be one that the history shows: what
  landed behind the history's last build, and what its cut hides (G7), is no part of it.

  Args:
      columns, names, table, declared: as `unexplained_versions` takes them
      shown: {batch_id, cut, columns, late} of the history's last build: up to where it shows its log, the names of the columns
          that it has, and those that its log had not from the beginning (`with_late_columns`); none where that isn't known, or was of
          another log: then nothing is asked of ends that a version doesn't tell, nor of what made none
-#}
{% macro unexplained_ends(history, changes, columns, names, table, declared, shown) -%}
{%- set compared = [] -%}
{#- R7: each change of a document tells a part of it. -#}
{%- if not table.documents -%}{%- do sort_columns(columns, names, table, declared, compared, []) -%}{%- endif -%}
with

of_all_keys as (

    select
        sort_array(collect_list(
            struct({{ place('changes') }} as place, transaction_id, changed_at, {{ is_shown_in(shown) }} as is_shown)
        )) as truncates
    from {{ changes }} as changes
    where op = 't' and problem is null

),

met as (

    {{ versions_and_ends(history, changes, columns, names, table, shown, compared) }}

),

followed as (

    select
        *,
        last_value(version_here, true) over so_far as version,
        place = last_value(if(is_version, place, null), true) over so_far as is_opening,
        lag(version_here) ignore nulls over by_place as former_version,
        lag(version_here, 2) ignore nulls over by_place as version_before,
        lag(version_here, 3) ignore nulls over by_place as version_before_that,
        lead(version_here) ignore nulls over by_place as next_version,
        -- as a fold has it, to which what leaves behind an arrival stands before that
        if(
            {{ is_left() }},
            lead({{ change_shown() }}, 2) ignore nulls over by_place, lead({{ change_shown() }}) ignore nulls over by_place
        ) as next_change,
        last_value(if(is_end, struct(transaction_id), null), true) over before_it as last_end,
        last_value(if(is_shown and not is_version, is_end and not {{ leaves() }}, null), true) over before_it as is_behind_delete,
        {{ is_left() }} as is_left,
        last_value(if(is_state, previous_key, null), true) over so_far as last_previous_key,
        {{ leaves_behind_arrival() }}{{ ' or ' ~ follows_insert_of_transaction() if table.documents }} as leaves_behind_arrival
    from met
    window
        by_place as (partition by key_as_text order by place asc, is_version desc),
        so_far as (
            partition by key_as_text order by place asc, is_version desc rows between unbounded preceding and current row
        ),
        before_it as (
            partition by key_as_text order by place asc, is_version desc rows between unbounded preceding and 1 preceding
        )

),

judged as (

    select
        coalesce(version, next_version).key as key,
        coalesce(version, next_version).version_id as version_id,
        {{ tells_of_end(changes, declared) }} as tells,
        {{ passes_over_end(declared) }} as passes_over_end,
        {{ begins_otherwise(table) }} as begins_otherwise,
        -- what the next boundary moved back has ended at once
        is_opening and op = 'r' and version.valid_from < changed_at
            and not version.valid_to <=> version.valid_from as is_moved_back,
        is_state and op != 'r' and changed_at <= version.valid_from as moves_read,
        {{ tells_otherwise(table, declared) }} as tells_otherwise,
        {{ is_needless(columns, shown) }} as is_needless
    from followed
    cross join of_all_keys
    where (version is null and is_state and is_shown and next_version is not null) or version is not null and (
        is_version or is_end or (is_state and (is_shown or size(truncates) > 0))
        or (is_opening and version.opened_by = 'key_change')
        or (
            version.opened_by = 'snapshot'
            and if(is_opening and op = 'r', version.valid_from < changed_at, changed_at <= version.valid_from)
        )
    )

)

select
    key,
    version_id
from judged
group by key, version_id
-- R11: any change that ends a version so will do, though the last of its transaction, or the first of several, is the one
having not bool_or(tells) or bool_or(passes_over_end) or bool_or(begins_otherwise)
    or (bool_or(is_moved_back) and not bool_or(moves_read)) or bool_or(tells_otherwise) or bool_or(is_needless)
{%- endmacro %}


{#- Condition: whether a history shows a change, as far as that is known. -#}
{% macro is_shown_in(shown) -%}
    {%- if shown is none -%}
    false
    {%- elif shown.get('cut') is none -%}
    batch_id <= {{ shown.batch_id }}
    {%- else -%}
    (batch_id <= {{ shown.batch_id }} and coalesce(position < {{ text_literal(shown.cut) }}, false))
    {%- endif -%}
{%- endmacro %}


{#- Expression over what a key has met: where a change that the history shows stands, and of which transaction it is. -#}
{% macro change_shown() -%}
    if(is_shown, struct(place, transaction_id), null)
{%- endmacro %}


{#- Query: what each key has met: its versions, where they open, its changes, and the end that one `u` is of the key it left. -#}
{% macro versions_and_ends(history, changes, columns, names, table, shown, compared) -%}
    {%- set is_change = is_change_of_key({'problems': true}) -%}
    {%- set left = left_key(dict(table, columns=columns)) -%}
    {%- set log = with_late_columns(changes, shown.get('late') if shown else none) ~ ' as changes' -%}
    select
        {{ key_text('key') }} as key_as_text,
        place,
        cast(null as string) as op,
        true as is_version,
        false as is_end,
        false as is_state,
        cast(null as string) as previous_key,
        cast(null as string) as next_key,
        transaction_id,
        cast(null as timestamp) as changed_at,
        false as is_shown,
        false as is_insert,
        cast(null as bigint) as state_hash,
        struct(
            key, version_id, opened_by, previous_key, valid_from, valid_to, closed_by, next_key,
            {{ hash_of_state('row', compared) }} as state_hash,
            xxhash64(unresolved_columns, to_json(exact_values)) as hash_beside
        ) as version_here
    from (
        {{ stored_versions(history, columns, names, table) }}
    ) as stored
    union all
    select
        {{ key_text('key') }},
        {{ place('changes') }},
        op,
        false,
        op = 'd',
        {{ is_state_op() }} and problem is null,
        {{ came_from() }},
        next_key,
        transaction_id,
        changed_at,
        {{ is_shown_in(shown) }},
        op = 'c' and previous_key is null,
        if({{ is_told_whole(compared) }}, {{ hash_of_state('after', compared) }}, null),
        null
    from {{ log }}
    where {{ is_change }}
    union all
    select
        {{ key_text(left) }},
        {{ place('changes') }},
        op,
        false,
        true,
        false,
        null,
        if(problem is null, {{ key_text('key') }}, null),
        transaction_id,
        changed_at,
        {{ is_shown_in(shown) }},
        false,
        null,
        null
    from {{ changes }} as changes
    where {{ left }} is not null and {{ is_change }}
{%- endmacro %}


{#- Expression: a hash of what a row says in columns, NULL apart from other values; NULL where there are none. -#}
{% macro hash_of_state(row, columns) -%}
    {%- if columns -%}
    xxhash64(
        {%- for column in columns %}
        {%- set value = row ~ '.' ~ quoted(column.name) %}
        {{ value }} is null, {{ comparable_parts(value, column.type) }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
    {%- else -%}
    cast(null as bigint)
    {%- endif -%}
{%- endmacro %}


{#- Expression: a comparable value in a form to hash: of one with parts a text, as a hash passes over NULLs and ends of parts. -#}
{% macro comparable_parts(value, type) -%}
    {%- set whole = comparable(value, type) -%}
    {#- The two zeros are one. -#}
    {{ "regexp_replace(" ~ exact_json('array(' ~ whole ~ ')') ~ ", '-0[.]0(?![0-9])', '0.0')" if '<' in type else whole }}
{%- endmacro %}


{#-
  Condition: whether a change tells its row's whole state as the version in effect has to have it, were it no change (R12): no
  column left out (R7) or missing, no value that its type can't hold (R6). A read can have rounded a `float`.
-#}
{% macro is_told_whole(compared) -%}
    size(unavailable_columns) = 0 and size(absent_columns) = 0 and size(exact_values) = 0
    {{- " and op != 'r'" if 'float' in compared | map(attribute='type') | map('lower') }}
{%- endmacro %}


{#- Condition over those in order: whether a row tells of the end of `version` as that says it; true where it is another law's. -#}
{% macro tells_of_end(changes, declared) -%}
    case
        -- R10: what runs back in time is another law's
        when version.valid_to < version.valid_from then true
        when is_version then case version.closed_by
            -- R9: that the next version begins where an update ended this one is another law's
            when 'update' then coalesce(next_version.opened_by, '') != 'snapshot'
            when 'snapshot' then coalesce(next_version.opened_by = 'snapshot' and next_version.valid_from = version.valid_to, false)
                {%- if declared.get('snapshot_deletes') == 'close' %}
                -- R16: any read of the table behind the version will do for the end of a complete snapshot
                or coalesce(place < (
                    select max({{ place('changes') }})
                    from {{ changes }} as changes
                    where {{ is_snapshot_read() }} and position is not null
                ), false)
                {%- endif %}
            when 'truncate' then exists(
                truncates,
                ending -> ending.place > place and {{ ends_at('ending.changed_at') }}
            )
            -- R14: a row can leave a key behind the arrival of the next one (`handed_over`)
            when 'key_change' then coalesce(next_version.opened_by = 'key_change', false)
            when 'delete' then false
            else true
        end
        else is_end
            and version.closed_by = if({{ leaves() }}, 'key_change', 'delete')
            and next_key <=> version.next_key
            and {{ ends_at('changed_at') }}
    end
{%- endmacro %}

{#-
  Condition over those in order: whether a change, or a truncate behind it, ends the version that is there, and that says of no
  end. R14: what leaves directly behind an arrival, in its transaction, leaves nothing closed; R11: nor may a document's move.
-#}
{% macro passes_over_end(declared) -%}
    coalesce(version.closed_by, 'update') in (
        {#- R16: a complete snapshot that lacks the row can have closed it before. -#}
        'update'{{ ", 'snapshot'" if declared.get('snapshot_deletes') != 'close' }}
    )
    and is_shown and if(
        is_end,
        not leaves_behind_arrival and {{ is_last_of_transaction('transaction_id', 'place', declared) }},
        is_state and exists(
            slice(filter(
                truncates,
                ending -> ending.is_shown and ending.place > place
                    and (next_change is null or ending.place < next_change.place)
            ), 1, 1),
            ending -> {{ is_last_of_transaction('ending.transaction_id', 'ending.place', declared) }}
        )
    )
{%- endmacro %}


{#- Condition over them: whether a change is the last of its transaction that its key has met (R11). -#}
{% macro is_last_of_transaction(transaction_id, place, declared) -%}
    {%- if declared.get('granularity') == 'event' -%}
    true
    {%- else -%}
    not coalesce(
        {{ transaction_id }} = next_change.transaction_id
            and {{ log_of_position(place ~ '.position') }} = {{ log_of_position('next_change.place.position') }},
        false
    )
    {%- endif -%}
{%- endmacro %}


{#-
  Condition over them: whether a state that the history shows tells another one than the version in effect (R12) or has none,
  opens a version though it is not its transaction's last (R11), or is earlier than a read's version lets it (R10). A truncate between
  states, or what leaves behind an arrival, is passed over, and what a complete snapshot can have closed between them.
-#}
{% macro tells_otherwise(table, declared) -%}
    {%- set is_last = is_last_of_transaction('transaction_id', 'place', declared) -%}
    {%- if table.documents -%}
    {#- What is told of the order in which shards had them is another. -#}
    false
    {%- else -%}
    is_state and is_shown and not is_left and case
        when exists(truncates, ending -> ending.transaction_id = transaction_id) then false
        {%- if declared.get('snapshot_deletes') == 'close' %}
        when is_opening or not {{ is_last }} then false
        else version is null or state_hash != version.state_hash
        {%- else %}
        when not {{ is_last }} then is_opening and not exists(
            truncates, ending -> ending.place > place and ending.place < next_change.place
        )
        when is_opening then op != 'r' and version_before.closed_by = 'update'
            and {{ begins_behind('version_before', 'version_before_that') }}
        when version is null then true
        else state_hash != version.state_hash or (op != 'r' and {{ begins_behind('version', 'version_before') }})
        {%- endif %}
    end
    {%- endif -%}
{%- endmacro %}


{#-
  Condition over a streamed state in a read's version, or right behind it: whether that begins later than both the state and the
  boundary before the read.
-#}
{% macro begins_behind(read, before) -%}
    coalesce(
        {{ read }}.opened_by = 'snapshot' and {{ read }}.valid_from > changed_at and coalesce(
            {{ read }}.valid_from
                > if({{ before }}.closed_by in ('update', 'snapshot'), {{ before }}.valid_from, {{ before }}.valid_to),
            true
        ),
        false
    )
{%- endmacro %}


{#- Condition over them: whether a version that an update closed says the same as the next one (R12), as far as all columns are there. -#}
{% macro is_needless(columns, shown) -%}
    {%- set there = columns | map(attribute='name') | map('lower') | list -%}
    {%- set lacking = [] -%}
    {%- for name in (shown.get('columns') or [] if shown else []) if name | lower not in there -%}
        {%- do lacking.append(name) -%}
    {%- endfor -%}
    {%- if lacking or not shown -%}
    false
    {%- else -%}
    is_version and version.closed_by = 'update' and version.state_hash = next_version.state_hash
        and version.hash_beside = next_version.hash_beside
    {%- endif -%}
{%- endmacro %}


{#-
  Condition over them: whether a version says otherwise than its transaction what began it: an insert where a state was and
  nothing ended that, an update by an insert right behind a delete, or a row from another key than the one that came.
-#}
{% macro begins_otherwise(table) -%}
    case
        {%- if table.documents %}
        -- R11: the delete that a new value of its shard key is can stand behind the insert
        when is_version then false
        {%- else %}
        when is_version then version.opened_by = 'insert' and former_version.closed_by <=> 'update'
            and not coalesce(last_end.transaction_id = transaction_id, false)
            and not exists(truncates, ending -> coalesce(ending.transaction_id = transaction_id, false))
        {%- endif %}
        -- what the change itself tells of it, `unexplained_versions` asks
        when is_opening and version.opened_by = 'key_change' then previous_key is null
            and not last_previous_key <=> version.previous_key
        {%- if not table.documents %}
        when is_opening then version.opened_by = 'update' and is_insert and is_behind_delete
        {%- endif %}
        else false
    end
{%- endmacro %}


{#- Condition: whether a version ends when a change ends it that bears a time (R10). -#}
{% macro ends_at(changed_at) -%}
    greatest({{ changed_at }}, version.valid_from) <=> version.valid_to
{%- endmacro %}


{#- Query: what a history says of its versions, under the names of its own columns; what told of them apart, and the row. -#}
{% macro stored_versions(history, columns, names, table) -%}
        {%- set place_columns = ['position', 'topic', 'partition', 'offset'] -%}
        select
            {{ key_of(dict(table, columns=columns)) }} as key,
            {%- for name in names if name not in place_columns %}
            {{ own(name, names) }} as {{ name }},
            {%- endfor %}
            {{ place_of_version(names) }} as place,
            struct(
                {%- for name in place_columns %}
                {{ own(name, names) }} as {{ quoted(name) }}{{ ',' if not loop.last }}
                {%- endfor %}
            ) as opening,
            struct(*) as row
        from {{ history }}
{%- endmacro %}


{#-
  Query: one row, of how many changes a history has versions (`opened`, G6), how many of these a first change found
  (`found_versions`), and how many have an unknown value (`unresolved_versions`, R7) or one that its type can't hold
  (`inexact_versions`, R6). Those that were found are told with that change (R19): it can have found several, and have a version of its own too. It
  asks nothing of dbt either.
-#}
{% macro changes_of_versions(history, names) -%}
{%- set is_found = own('opened_by', names) ~ " = 'before'" -%}
{%- set opening -%}
    struct({{ own('position', names) }}, {{ own('topic', names) }}, {{ own('partition', names) }}, {{ own('offset', names) }})
{%- endset -%}
with

{#- A table's own column can be named as a relation here: a join knows them apart, a question within a question wouldn't. #}
versions as (

    select
        {{ is_found }} as is_found,
        {{ opening }} as opening,
        {{ own('unresolved_columns', names) }} as unresolved_columns,
        {{ own('exact_values', names) }} as exact_values
    from {{ history }}

),

found as (

    select distinct opening
    from versions
    where is_found

)

select
    count(distinct if(versions.is_found, versions.opening, null))
        + count_if(not versions.is_found and found.opening is null) as opened,
    count_if(versions.is_found) as found_versions,
    count_if(size(versions.unresolved_columns) > 0) as unresolved_versions,
    count_if(size(versions.exact_values) > 0) as inexact_versions
from versions
left join found on versions.opening = found.opening and not versions.is_found
{%- endmacro %}


{#-
  Query: by `identity`, how many rows a current state has and how many open versions its history, and the first and the last
  of what they say in the columns of both. It asks nothing of dbt either.

  Args:
      identity: the columns that tell rows apart
      columns: those that both have
      is_open: which versions are open, as a condition
-#}
{% macro current_beside_history(current, history, identity, columns, is_open) -%}
select
    identity,
    count_if(is_current) as in_current,
    count_if(not is_current) as in_history,
    min(state) as first_state,
    max(state) as last_state
from (
    {%- for relation in [current, history] %}
    select
        {{ struct_of_columns(identity) }} as identity,
        md5({{ exact_json(struct_of_columns(columns)) }}) as state,
        {{ 'true' if loop.first else 'false' }} as is_current
    from {{ relation }}
    {{ 'union all' if loop.first else 'where ' ~ is_open }}
    {%- endfor %}
) as sides
group by identity
{%- endmacro %}


{#- Condition over it: whether current state has another row than the open version, or one of them is missing. -#}
{% macro is_not_as_open() -%}
    in_current = 0 or in_history = 0 or first_state != last_state
{%- endmacro %}
