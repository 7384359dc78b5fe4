{#-
  The connectors that Tidemark knows. How a connector's events are read is in its file; here is what they share. What a
  new connector needs is in docs/tests.md. Owns R3 and R4.

  A connector is a mapping of expressions over columns that every change has: `op`, `source` (the source block, each
  field as text), `transaction` (the envelope's) and `snapshot_lsn`.

      names            what `source.connector` says
      fields           the fields of the source block that its expressions read
      position         where its log has the change (R4): text that sorts as the log does; NULL where the event tells none.
                       With `unordered_end` behind it, it can stand behind a higher one in the order of the log
      log              which of several logs side by side has the position, where a topic can have changes of several; NULL
                       where one has those of all
      identity         the position as the event gives it: what tells changes of a key from redeliveries (R3)
      is_tied          condition: whether several changes can have one position, so that content counts too (R3); none where
                       none can; it does for a key that the record's own doesn't tell, whatever the connector
      is_of_one_row    condition: whether a position is that of one row alone, so that equal changes there are one without a key,
                       too (R3); false where not said, as rows of one statement can share it
      lowest           of a change in a log, by `position_in_log`, the beginning of a position that another delivery of it can
                       have, where that can be lower; not said where they agree
      ends             of a read, the beginnings of the positions of which one is that of its log's end, if it was sent at a sign of
                       life of a quiet server, and stands before that though nothing was written in between; not said where it can't
      server           the server and the name of its log where a streamed event tells them (R5); none where none does
      transaction      the transaction that a streamed change names (R11)
      boundary         the transaction that a BEGIN or an END names, `boundary.id`, as `transaction` spells it (G7)
      collections      the names that END can give a table (G7): lists of the parts that a dot joins, of db, schema, table and
                       replica_set, which can be any
      previous_table   the name that `table` had before the statement `ddl`, where its schema-change event names the new one
                       alone (R8); none where not said
      is_before_whole  whether it always writes the whole row where it writes `before` (R19)
      rounds_floats    whether its reads have six digits of a number of single precision, and its streamed changes all
                       (R12); false where not said
      has_documents    whether its rows are documents; false where not said
      is_alone         condition: whether a change is all of its transaction, and no END counts it (G7); not said where none is
      has_one_time     whether all changes of a transaction have the time of its BEGIN, in milliseconds, so that two transactions
                       with one id can be told apart (G7); false where not said
      has_lone_changes whether what is written outside of a transaction is in none (G7); false where not said
      place_of_read    where the places of streamed changes can rest on the snapshot reads before them (S in R4): the place of
                       such a read, a number; NULL where a read's doesn't tell S. Its position is that number, as it sorts,
                       and 0 of as many digits
      last_commit      with it, the last commit that a change's event knows of; NULL where it knows none
      own_place        with it, where a change itself was written, as a number
      waits_for_read   with it, the condition on a record of bronze whether a streamed change's event knows no commit

  Markers of snapshots and truncates are alike in all of them (R15, R16).

  Args:
      among: names that changes can have here, so that nothing is asked of other connectors; all where none
-#}
{% macro connectors(among=none) -%}
    {%- set those_among = [] -%}
    {%- for one in [postgresql(), mysql(), oracle(), sqlserver(), db2(), mongodb()] -%}
        {%- if among is none or one.names | select('in', among) | list -%}
            {%- do those_among.append(one) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(those_among) }}
{%- endmacro %}


{#- Expression list: how many of the records each known connector has written, under the first of its names. -#}
{% macro connector_counts() -%}
    {%- for one in connectors() -%}
        count_if(connector in ({{ text_list(one.names) }})) as {{ one.names[0] }}{{ ', ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}


{#- The names of the connectors that have written any, by those counts. -#}
{% macro counted_connectors(counts) -%}
    {%- set met = [] -%}
    {%- for one in connectors() -%}{%- do met.extend(one.names if counts[one.names[0]] else []) -%}{%- endfor -%}
    {{ return(met) }}
{%- endmacro %}


{#- What `source.connector` says of those connectors. -#}
{% macro connector_names() -%}
    {{ return(connectors() | map(attribute='names') | sum(start=[])) }}
{%- endmacro %}


{#- The type of the source block: every field that a connector is read by, and more, as text; absent ones are NULL. -#}
{% macro source_ddl(among, more) -%}
    {%- set fields = ['connector', 'snapshot', 'ts_ms', 'ts_us', 'ts_ns'] + connectors(among) | map(attribute='fields') | sum(start=[]) + more -%}
    struct<{% for field in fields | unique %}{{ quoted(field) }}: string{{ ', ' if not loop.last }}{% endfor %}>
{%- endmacro %}


{#-
  Expression: the connector whose rules hold for a change; NULL where its own is unknown and the source declares none.

  Args:
      declared: the source's option `connector`
-#}
{% macro ruling_connector(declared) -%}
    if(connector in ({{ text_list(connector_names()) }}), connector, {{ text_literal(declared) if declared else 'null' }})
{%- endmacro %}


{#- Expression: a part of what is known of the change's connector; NULL where that is unknown. -#}
{% macro by_connector(part, among) -%}
    {%- set cases = [] -%}
    {%- for one in connectors(among) if one.get(part) is not none -%}
        {%- do cases.append('when connector in (' ~ text_list(one.names) ~ ') then ' ~ one[part]) -%}
    {%- endfor -%}
    {%- set types = {'identity': 'array<string>', 'ends': 'array<string>', 'is_tied': 'boolean', 'is_of_one_row': 'boolean'} -%}
    {%- set type = types.get(part, 'string') -%}
    {{ 'case ' ~ cases | join(' ') ~ ' end' if cases else 'cast(null as ' ~ type ~ ')' }}
{%- endmacro %}


{#- Condition: whether the change's connector has a property. -#}
{% macro is_connector(property, among) -%}
    {%- set names = connectors(among) | selectattr(property, 'true') | map(attribute='names') | sum(start=[]) -%}
    {{ 'coalesce(connector in (' ~ text_list(names) ~ '), false)' if names else 'false' }}
{%- endmacro %}


{#-
  Expression over `before_text`, `after_text` and `log_number`: what makes two records one change (R3), as a structure to
  hash; the source's log (R5) is part of it. `total_order` and the envelope's time are not: they differ between deliveries of
  one change. A streamed change that tells no position repeats nothing that could be known: each delivery of it stands alone.
  A read that tells none is known by the envelope's time: to read it again makes another, and what is sent again says the same.

  Args:
      key: the declared key, whose value is in `key_struct`, or where that has a `problem` in `key_text`; none for a table without one
      among: names of connectors, as `connectors` takes them
-#}
{% macro change_identity(key, among) -%}
    {#- Of columns that are NULL nothing: which are known when a record is read tells it from no other. -#}
    {%- set content = 'to_json(struct(before_text, after_text))' -%}
    {%- set is_tied = 'coalesce(' ~ by_connector('is_tied', among) ~ ', false)' -%}
    {#- Where the source has no such key, rows of one statement can share it, and a place in the log (R18). -#}
    {%- set lacks_key = [] -%}
    {%- for name in key -%}{%- do lacks_key.append('key_text.' ~ quoted(name) ~ ' is null') -%}{%- endfor -%}
    {%- set identity = by_connector('identity', among) -%}
    {%- if key -%}
        {%- set identity = "if(op = 'r' and place is null, array_append(" ~ identity ~ ', cast(processed_at_ms as string)), ' ~ identity ~ ')' -%}
    {%- endif -%}
    named_struct(
        {%- if key %}
        'key', key_struct,
        'undecoded', if(problem is null, null, key_text),
        {%- endif %}
        'log', nullif(log_number, 0),
        'op', op,
        'place', if(
            place is null and (op != 'r' or connector is null)
                or (problem <=> 'key_not_told' and previous_key is null),
            {{ delivery_itself() }},
            {{ identity }}
        ),
        'content', {{ "if(op = 'r' or " ~ is_tied ~ ' or ' ~ lacks_key | join(' or ') ~ ', ' ~ content ~ ', null)' if key else content }}
    )
{%- endmacro %}


{#- Expression: the source transaction of a change (R11); NULL for a read, which is in none, and where nothing names it. -#}
{% macro transaction_id(among) -%}
    if(op = 'r', null, {{ by_connector('transaction', among) }})
{%- endmacro %}


{#-
  What is known of the connector whose rules hold for a source (G7): the one that its events name, else the one that the
  source declares; none where both are unknown.
-#}
{% macro connector_of(name, declared) -%}
    {%- for one in connectors() if (name if name in connector_names() else declared) in one.names -%}
        {{ return(one) }}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#- The names that END can give a table, whose full name is {db, schema, table}. -#}
{% macro collections_of(connector, table) -%}
    {%- set names = [] -%}
    {%- for parts in connector.collections -%}
        {%- set name = [] -%}
        {%- for part in parts -%}{%- do name.append(table.get(part, '*')) -%}{%- endfor -%}
        {%- do names.append(name | join('.')) -%}
    {%- endfor -%}
    {{ return(names) }}
{%- endmacro %}


{#-
  Expression: whether `before` holds the whole row (R19): as declared, else as the connector always writes it. One with a
  placeholder in it (Oracle's LOBs) doesn't.
-#}
{% macro is_before_whole(declared, among) -%}
    has_before and size(unavailable_before) = 0 and {{ is_connector('is_before_whole', among) if declared is none else declared | lower }}
{%- endmacro %}


{#- Expression: the source's marker of a read, which is a boolean or a text; absent or null when streaming. -#}
{% macro snapshot_marker() -%}
    coalesce(source.snapshot, 'false')
{%- endmacro %}


{#-
  Expression: a read without a position follows the greatest before it by offset in its partition (R4). Beside other logs that
  is the greatest of its own log, or of its key, whose row may have come from another. Where one log has the changes of
  several servers, whose clocks differ, it stands behind none of its key's that come after it by offset. With none before it,
  it is a first read, and stands before all changes.
-#}
{% macro followed_position(scope) -%}
    {%- if not scope.has_placeless -%}
    log_position
    {%- else -%}
    {%- set greatest = greatest_before() -%}
    {%- if connectors(scope.connectors) | selectattr('log', 'defined') | list -%}
        {%- set log = by_connector('log', scope.connectors) -%}
        {%- set in_one_log = "nullif(least(coalesce(" ~ greatest ~ ", ''), " ~ lowest_behind(['key']) ~ "), '')" -%}
        {%- set greatest = 'if(' ~ log ~ ' is null, ' ~ in_one_log ~ ', greatest(' ~ greatest_before([log])
            ~ ', ' ~ greatest_before(['key']) ~ '))' -%}
    {%- endif -%}
    coalesce(
        log_position,
        if(op = 'r' and problem is null, coalesce({{ greatest }}, {{ position_across_logs("''", scope.borders) }}), null)
    )
    {%- endif -%}
{%- endmacro %}


{#- Expression: the greatest position before a change, by offset in its partition. -#}
{% macro greatest_before(within=[]) -%}
    {{ position_beside('max', '`offset`', within) }}
{%- endmacro %}


{#- Expression: the lowest position behind a change, by offset in its partition. -#}
{% macro lowest_behind(within) -%}
    {{ position_beside('min', '`offset` desc', within) }}
{%- endmacro %}


{#-
  Expression: one of the positions that stand before a change in an order of its partition.

  Args:
      pick: `max` or `min`
      order: of offsets
      within: expressions that have to be equal
-#}
{% macro position_beside(pick, order, within) -%}
    {{ pick }}(log_position) over (
        partition by {{ (['source_label', 'topic', '`partition`', 'log_number'] + within) | join(', ') }}
        order by {{ order }}
        rows between unbounded preceding and 1 preceding
    )
{%- endmacro %}


{#- Whether deliveries of one change can have different positions. -#}
{% macro positions_can_differ(among) -%}
    {{ return(connectors(among) | selectattr('lowest', 'defined') | list | length > 0) }}
{%- endmacro %}


{#- Expression: of a change in a log, the lowest position that any delivery of it can have. -#}
{% macro lowest_position(among) -%}
    {%- set lowest = connectors(among) | selectattr('lowest', 'defined') | map(attribute='lowest') | list -%}
    {%- if lowest -%}
        concat(
            if(log_number = 0, '', concat({{ log_of_position() }}, ':')),
            least({{ position_in_log() }}, {{ lowest | join(', ') }})
        )
    {%- else -%}
        position
    {%- endif -%}
{%- endmacro %}


{#- What stands at the end of a position that tells nothing of where its change was written among others. -#}
{% macro unordered_end() -%}
    {{ return(' -') }}
{%- endmacro %}


{#- Expression: a whole number as text that sorts like it; NULL where it is none, or has more digits. -#}
{% macro sortable_number(number, digits=20) -%}
    lpad(nullif(regexp_extract({{ number }}, '^[0-9]{1,{{ digits }}}$', 0), ''), {{ digits }}, '0')
{%- endmacro %}


{#- Expression: a part of a position that can be NULL, and sorts first then. -#}
{% macro nulls_first(part) -%}
    coalesce({{ part }}, '')
{%- endmacro %}


{#- Expression: the parts of a position, joined: a space sorts before all that a part is written with. -#}
{% macro position_of(parts) -%}
    concat({{ parts | join(", ' ', ") }})
{%- endmacro %}
