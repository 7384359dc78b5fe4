{#-
  What the tables of records beside changes share: a table for each topic prefix and kind of record (R17), of which each
  row can be told from its redeliveries, and nothing is read where nothing of the kind has landed.
-#}


{#-
  Condition: whether a record of bronze has the feed of a topic, as those of no table have (landing/envelope.py). Of bronze's
  partitions, which are feeds, Delta then reads no table's.
-#}
{% macro is_of_no_table() -%}
    startswith(feed, 'topic__')
{%- endmacro %}


{#- Condition: whether a record of bronze is of a kind and of the connector with a topic prefix. -#}
{% macro is_of_channel(kinds, prefix) -%}
    {{ is_of_no_table() }} and kind in ({{ text_list(kinds) }}) and source_name = {{ text_literal(prefix) }}
{%- endmacro %}


{#-
  What this run has to read, decided here alone: everything where the table is new or declared otherwise (`full`), nothing
  where no record has come since (`nothing`), else what has come (`some`) or, where rows depend on each other, everything.

  Args:
      declared: the options that its rows depend on
      records: condition, the records of bronze that it reads
      stands_alone: whether each record's rows depend on it alone
      columns: [{name, type, …}], the columns of a payload, where they are declared
-#}
{% macro channel_scope(declared, records, stands_alone, columns=[]) -%}
    {#- `form` is raised where what rows say of a record comes to be otherwise: tables of another are made anew (G2). -#}
    {%- set progress = own_progress() -%}
    {%- set scope = dict(build_scope('silver', dict(declared, form=1), columns, progress), batch_id=none) -%}
    {%- if not is_building() -%}
        {{ return(scope) }}
    {%- endif -%}
    {%- do only_of_this_bronze(scope, progress) -%}
    {%- set last = run_query('select max(batch_id) from ' ~ lakehouse_table('bronze', 'records') ~ ' where '
        ~ records ~ ' and batch_id > ' ~ scope.after)[0][0] -%}
    {%- if scope.case == 'full' -%}
        {{ return(dict(scope, batch_id=last or 0)) }}
    {%- elif last is none -%}
        {{ return(dict(scope, case='nothing')) }}
    {%- elif stands_alone -%}
        {{ return(dict(scope, case='some', batch_id=last)) }}
    {%- endif -%}
    {{ return(dict(scope, case='full', after=-1, batch_id=last)) }}
{%- endmacro %}


{#- Expression: a record's value with these fields (name → type), whether or not a schema stands beside them. -#}
{% macro read_wrapped(fields) -%}
    {%- set block = [] -%}
    {%- for name, type in fields.items() -%}
        {%- do block.append(quoted(name) ~ ': ' ~ type) -%}
    {%- endfor -%}
    {%- set block = block | join(', ') -%}
    {{ read_json(record_text('value'), 'struct<`schema`: string, payload: struct<' ~ block ~ '>, ' ~ block ~ '>') }}
{%- endmacro %}


{#- Columns: the fields of `parsed`, which is such a value. -#}
{% macro unwrapped_fields(fields) -%}
    {%- for name in fields -%}
        if(parsed.payload is null, parsed.{{ quoted(name) }}, parsed.payload.{{ quoted(name) }}) as {{ quoted(name) }}{{ ', ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}


{#- Expression: the time that milliseconds since 1970 tell, as text, within the years 1 to 9999; 0 is no time (R10). -#}
{% macro instant_of(milliseconds) -%}
    timestamp_millis(if(
        try_cast({{ milliseconds }} as bigint) between -62135596800000 and 253402300799999,
        nullif(try_cast({{ milliseconds }} as bigint), 0),
        null
    ))
{%- endmacro %}


{#- Expression: a row's stable name, from what makes two records the same thing; without a place each delivery stands alone. -#}
{% macro stable_id(parts) -%}
    sha2({{ exact_json(
        'named_struct(' ~ parts ~ ", 'place', if(place is null, " ~ delivery_itself() ~ ', identity))'
    ) }}, 256)
{%- endmacro %}


{#- Builds a log that is appended to, and merged into only where a record lands late that was delivered before one that is there. -#}
{% materialization appended, adapter='spark' %}
    {%- set decision = decided(compiled_code) -%}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set id = config.require('unique_key') -%}
    {{ run_hooks(pre_hooks) }}
    {%- if decision.case == 'nothing' -%}
        {%- do leave_as_is(target_relation, decision) -%}
    {%- elif decision.case == 'full' -%}
        {%- do create_as(target_relation, compiled_code, decision.layer) -%}
        {%- do say('built', decision) -%}
    {%- else -%}
        {%- set staged = stage(compiled_code) -%}
        {%- set counts = write_revisions(staged, target_relation, decision, id) -%}
        {%- do unstage(staged) -%}
        {%- do say(counts[0] ~ ' rows', decision) -%}
    {%- endif -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
