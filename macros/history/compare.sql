{#-
  Query: each committed change with `was_open`, whether the key had an open version before it, and `is_opening`,
  whether it opens one. Owns R12. Where every change carries the same columns, equality passes from change to change, and
  the change before stands for the open version.
-#}
{% macro compared_with_last(table, tracked, hazards) -%}
    select
        * except (last_state),
        last_state is not null as was_open,
        is_state and (last_state is null or {{ differs('', 'last_state.', table, tracked, hazards) }}) as is_opening
    from committed
{%- endmacro %}


{#-
  The same where changes of one key carry different columns, or reads round: each is compared with the open version itself,
  so one after the other. A key whose states all carry the same columns, and none of which was read behind another, needs no
  such walk: its changes are rows by themselves.
-#}
{% macro compared_in_turn(table, tracked, hazards) -%}
    select
        walked.changes.* except (is_alike, is_opening),
        walked.verdicts as is_opening
    from (
        select explode(arrays_zip(changes, verdicts)) as walked
        from (
            select
                changes,
                if(
                    changes[0].is_alike,
                    transform(changes, change -> change.is_opening),
                    {{ verdicts_in_turn('changes', table, tracked, hazards) }}
                ) as verdicts
            from (
                select {{ in_order_of_place('struct(*)') }} as changes
                from (
                    select
                        *,
                        coalesce(
                            min(if(is_state, absent_columns, null)) over of_key
                            = max(if(is_state, absent_columns, null)) over of_key,
                            true
                        )
                        {%- if table.rounded %}
                        and not bool_or(is_read and was_open) over of_key
                        {%- endif %} as is_alike
                    from ({{ compared_with_last(table, tracked, hazards) }}) as one_by_one
                    window of_key as (partition by key)
                ) as committed
                group by key, if(is_alike, place, null)
            ) as lives
        ) as judged
    ) as walks
{%- endmacro %}


{#-
  Expression: for each change of a key, in their order, whether it opens a version. What a walk holds is copied at every
  step, arrays item by item: so the verdicts are letters of one text.
-#}
{% macro verdicts_in_turn(changes, table, tracked, hazards) -%}
    aggregate(
        {{ changes }},
        named_struct('open', if(false, {{ open_version(changes ~ '[0]') }}, null), 'verdicts', ''),
        (walk, next) -> transform(
            array(next.is_state and (
                walk.open is null or {{ differs('next.', 'walk.open.', table, tracked, hazards) }}
            )),
            is_opening -> named_struct(
                'open', case when is_opening then {{ open_version('next') }} when next.is_state then walk.open end,
                'verdicts', concat(walk.verdicts, if(is_opening, 'y', 'n'))
            )
        )[0],
        walk -> transform(split(walk.verdicts, ''), verdict -> verdict = 'y')
    )
{%- endmacro %}


{% macro open_version(change) -%}
    struct({{ change }}.state, {{ change }}.unresolved_columns, {{ change }}.absent_columns, {{ change }}.exact_values)
{%- endmacro %}


{#-
  Expression: whether a state differs from an older one in the tracked columns that both carry (R12): NULL-safe, by
  logical value, exact text included. A column that only the newer carries is a difference where it is not NULL; one
  that it lacks is none. An unresolved value differs from every known one and equals another unresolved (R7). A read that
  rounds equals each value that is rounded to it.

  Args:
      newer, older: what stands before `state`, `unresolved_columns`, `absent_columns` and `exact_values`, dot included; of the
          newer before `is_read`, too
-#}
{% macro differs(newer, older, table, tracked, hazards) -%}
    {%- set hazards = hazards_of(table, hazards) %}
    (
        {%- for spec in table.columns if spec.name in tracked %}
        {{ 'or ' if not loop.first }}{{ column_differs(newer, older, spec, hazards, spec.name in table.rounded) }}
        {%- else %}
        false
        {%- endfor %}
    )
{%- endmacro %}


{#- The hazards of a fold, with those that its steps make where the log shows none. -#}
{% macro hazards_of(table, hazards) -%}
    {{ return(dict(
        hazards, inexact=hazards.inexact or table.documents, unavailable=hazards.unavailable or table.reselected
    )) }}
{%- endmacro %}


{#- Condition: whether two states differ in one column, as `differs` asks of each. -#}
{% macro column_differs(newer, older, spec, hazards, is_rounded) -%}
    {%- set name = text_literal(spec.name) -%}
    {%- set value = comparable(newer ~ 'state.' ~ quoted(spec.name), spec.type) -%}
    {%- set differs -%}
        not {{ value }} <=> {{ comparable(older ~ 'state.' ~ quoted(spec.name), spec.type) }}
        {%- if is_rounded %}
        and not ({{ newer }}is_read and {{ value }} <=> {{ six_digits(older ~ 'state.' ~ quoted(spec.name)) }})
        {%- endif %}
        {%- if hazards.inexact %}
        or not {{ comparable_text(newer ~ 'exact_values[' ~ name ~ ']', spec.type) }}
            <=> {{ comparable_text(older ~ 'exact_values[' ~ name ~ ']', spec.type) }}
        {%- endif %}
        {%- if hazards.unavailable %}
        or array_contains({{ newer }}unresolved_columns, {{ name }}) != array_contains({{ older }}unresolved_columns, {{ name }})
        {%- endif %}
    {%- endset -%}
    {%- if hazards.absent -%}
        case
            when array_contains({{ newer }}absent_columns, {{ name }}) then false
            when array_contains({{ older }}absent_columns, {{ name }})
                then {{ value }} is not null or array_contains({{ newer }}unresolved_columns, {{ name }})
                    or {{ newer }}exact_values[{{ name }}] is not null
            else {{ differs }}
        end
    {%- else -%}
        {{ differs }}
    {%- endif -%}
{%- endmacro %}


{#-
  Condition: whether `before`, a whole row, tells another one than a state does (R19). A column that the state did not carry,
  or not exactly, or later than its change, says nothing; one that reads round tells six digits, of which the open version can
  have all.

  Args:
      met: the name of a struct of `state`, `unavailable_columns`, `absent_columns` and `exact_values`
-#}
{% macro is_of_another_row(met, table) -%}
    (
        {%- if table.documents %}
        {{ met }}.state.edits is null and not {{ same_document('before.after', met ~ '.state.after') }}
        {%- else %}
        {%- for spec in table.columns if spec.name not in table.key + table.reselected %}
        {%- set name = text_literal(spec.name) %}
        {{ 'or ' if not loop.first }}not (
            {{ comparable('before.' ~ quoted(spec.name), spec.type) }}
            <=> {{ comparable(met ~ '.state.' ~ quoted(spec.name), spec.type) }}
            {%- if spec.name in table.rounded %}
            or {{ six_digits('before.' ~ quoted(spec.name)) }} <=> {{ six_digits(met ~ '.state.' ~ quoted(spec.name)) }}
            {%- endif %}
            or array_contains({{ met }}.unavailable_columns, {{ name }})
            or array_contains({{ met }}.absent_columns, {{ name }})
            or array_contains(absent_columns, {{ name }})
            or {{ met }}.exact_values[{{ name }}] is not null
        )
        {%- else %}
        false
        {%- endfor %}
        {%- endif %}
    )
{%- endmacro %}


{#- Expression: a `float` with six digits, as MySQL writes it in text, which rounds half to even. -#}
{% macro six_digits(value) -%}
    {%- set exact = 'cast(' ~ value ~ ' as double)' -%}
    coalesce({{ bound(
        'scale', 'power(10, 5 - floor(log10(abs(' ~ exact ~ '))))', 'cast(bround(' ~ exact ~ ' * scale) / scale as float)'
    ) }}, {{ value }})
{%- endmacro %}


{#- Expression: a value in a form that can be compared: Spark compares no maps. Those within others have their keys in order. -#}
{% macro comparable(column, type) -%}
    {%- set depth = (type | lower).count('map<') -%}
    {{ column if not depth else 'sort_array(map_entries(' ~ column ~ '))' if depth == 1 and type.startswith('map') else exact_json(column) }}
{%- endmacro %}


{#- Expression: the exact text of a value in a form that can be compared: of a number without needless zeros. -#}
{% macro comparable_text(text, type) -%}
    {%- if kind_of(type) == 'number' -%}
        {{ comparable_number(text) }}
    {%- else -%}
        {{ text }}
    {%- endif -%}
{%- endmacro %}


{#- Expression: the text of a number without needless zeros, and any other text as it is. -#}
{% macro comparable_number(text) -%}
    regexp_replace({{ text }}, '^[+]?(-?)(?=[.]?[0-9])0*([0-9]*)(?:[.]0*|([.][0-9]*[1-9])0*|)$', '$1$2$3')
{%- endmacro %}


{#- The columns whose changes make no version, and whose newest value the open version takes (R12). -#}
{% macro ignored_columns(table, tracked) -%}
    {%- set ignored = [] -%}
    {%- for spec in table.columns if spec.name not in tracked and spec.name not in table.key -%}
        {%- do ignored.append(spec.name) -%}
    {%- endfor -%}
    {{ return(ignored) }}
{%- endmacro %}


{#- Expression over the window `in_version`: its first state, with the newest carried values of the ignored columns. -#}
{% macro newest_state(table, ignored) -%}
    if(is_state, {% call(spec) struct_by_column(table.columns) -%}
        {%- set value = 'state.' ~ quoted(spec.name) -%}
        {{ newest(spec.name, value) if spec.name in ignored else value }}
    {%- endcall %}, null)
{%- endmacro %}


{% macro newest(name, value) -%}
    last_value(if(array_contains(absent_columns, {{ text_literal(name) }}), null, struct({{ value }} as value)), true) over in_version.value
{%- endmacro %}


{#- The same for the names of unresolved columns and for exact texts. -#}
{% macro newest_unresolved(ignored) -%}
    concat(
        array_except(unresolved_columns, {{ text_array(ignored) }}),
        array_compact(array(
            {%- for name in ignored %}
            if(
                {{ newest(name, 'array_contains(unresolved_columns, ' ~ text_literal(name) ~ ')') }},
                {{ text_literal(name) }},
                null
            )
            {{- ',' if not loop.last }}
            {%- endfor %}
        ))
    )
{%- endmacro %}


{% macro newest_exact_values(ignored) -%}
    map_concat(
        map_filter(exact_values, (name, text) -> not array_contains({{ text_array(ignored) }}, name)),
        map_filter(
            map(
                {%- for name in ignored %}
                {{ text_literal(name) }}, {{ newest(name, 'exact_values[' ~ text_literal(name) ~ ']') }}
                {{- ',' if not loop.last }}
                {%- endfor %}
            ),
            (name, text) -> text is not null
        )
    )
{%- endmacro %}
