{#-
  Steps up to `filled`: values that an event left out as unchanged, from the state before it, late arrivals and
  changes that a transaction will collapse included. What no earlier state tells is NULL and named as unresolved; what
  the connector may have read again later keeps its value, and is named too. Owns R7.
-#}
{% macro fill_steps(table, hazards) -%}
{%- set last = 'filled_in' if table.reselected else 'filled' -%}
{%- if table.documents -%}
{{ document_steps(table) }}
{%- elif not hazards.unavailable -%}
{{ last }} as (

    select
        *,
        cast(array() as array<string>) as unresolved_columns
    from stays

)
{%- elif not hazards.linked -%}
{{ last }} as (

    select * except (link) from (
        {{ filled_from_own_states(table, hazards) }}
    ) as filled_alone

)
{%- else -%}
filled_alone as (

    {{ filled_from_own_states(table, hazards) }}

),

{{ follow_links(table, hazards, last) }}
{%- endif -%}
{%- if table.reselected %},

filled as (

    select
        * except (unresolved_columns),
        array_union(unresolved_columns, {{ read_again(table.reselected) }}) as unresolved_columns
    from filled_in
    window from_source as (
        partition by key, source_no order by place rows between unbounded preceding and current row
    )

)
{%- endif -%}
{%- endmacro %}


{#-
  Expression over `from_source`: the names of the columns whose value the connector may have read again, later than the
  change that tells it: nothing in the event says that it did. A read is the source's own; a value that was left out is
  of the change that told it last.
-#}
{% macro read_again(reselected) -%}
    array_compact(array(
        {%- for name in reselected %}
        {%- set name = text_literal(name) %}
        {%- set carries = 'is_state and not array_contains(absent_columns, ' ~ name ~ ')' %}
        if({{ carries }} and coalesce(last_value(if(
            {{ carries }} and not array_contains(unavailable_columns, {{ name }}), op in ('c', 'u'), null
        ), true) over from_source, true), {{ name }}, null)
        {{- ',' if not loop.last }}
        {%- endfor %}
    ))
{%- endmacro %}


{#-
  Query: filled from the key's own states since it was inserted, or since its row came from another key: `link` is then
  the change that brought it.
-#}
{% macro filled_from_own_states(table, hazards) -%}
    select
        * except (state{{ ', exact_values' if hazards.inexact }}),
        first_value(if(previous_key is not null, change_id, null)) over from_source as link,
        if(state is null, null, {% call(spec) struct_by_column(table.columns) -%}
            if(
                array_contains(unavailable_columns, {{ text_literal(spec.name) }}),
                {{ last_known(spec) }}.value,
                state.{{ quoted(spec.name) }}
            )
        {%- endcall %}) as state,
        {%- if hazards.inexact %}
        map_concat(exact_values, map_filter(
            map(
                {%- for spec in table.columns %}
                {{ text_literal(spec.name) }}, if(
                    array_contains(unavailable_columns, {{ text_literal(spec.name) }}), {{ last_known(spec) }}.text, null
                )
                {{- ',' if not loop.last }}
                {%- endfor %}
            ),
            (name, text) -> text is not null
        )) as exact_values,
        {%- endif %}
        array_compact(array(
            {%- for spec in table.columns %}
            if(
                array_contains(unavailable_columns, {{ text_literal(spec.name) }})
                    and coalesce({{ last_known(spec) }}.is_absent, true),
                {{ text_literal(spec.name) }},
                null
            )
            {{- ',' if not loop.last }}
            {%- endfor %}
        )) as unresolved_columns
    from stays
    window from_source as (
        partition by key, source_no order by place rows between unbounded preceding and current row
    )
{%- endmacro %}


{#-
  Expression: a column's last value that was not left out as unchanged, as {value, text, is_absent}, its exact text beside it;
  NULL where there is none. A state that lacks the column says that nothing is known of it.
-#}
{% macro last_known(spec) -%}
    last_value(
        if(
            is_state and not array_contains(unavailable_columns, {{ text_literal(spec.name) }}),
            struct(
                state.{{ quoted(spec.name) }} as value,
                exact_values[{{ text_literal(spec.name) }}] as text,
                array_contains(absent_columns, {{ text_literal(spec.name) }}) as is_absent
            ),
            null
        ),
        true
    ) over from_source
{%- endmacro %}


{#-
  Steps: what a row brought to another key is told by the last state of the key it came from or, where that is unknown,
  of its own: its last before the row left it, where that is told. That state can itself be unresolved and stem from
  another key: the links are followed in their order, each finding the one before it resolved.

  Args:
      last: the name of the last of them
-#}
{% macro follow_links(table, hazards, last) -%}
{#- Rows are as narrow as they can be: few tables have values that their types can't hold. -#}
{%- set exact = 'exact_values, ' if hazards.inexact else '' -%}
{%- set unknown = 'array_union(unresolved_columns, absent_columns)' if hazards.absent else 'unresolved_columns' -%}
questions as (

    select
        {{ key_text('key') }} as of_key,
        place,
        -- a row that ended tells nothing of the next one that has its key
        struct(
            if(is_state, struct(state, {{ unknown }} as unresolved_columns, {{ exact }}link), null) as row
        ) as answer,
        not is_state and next_key is not null as leaves,
        cast(null as string) as asker,
        cast(null as boolean) as is_own,
        cast(null as boolean) as is_behind
    from filled_alone
    union all
    select
        question.of_key,
        question.place,
        null as answer,
        null as leaves,
        change_id as asker,
        question.is_own,
        question.is_behind
    from (
        -- both halves of a change of key name both keys: the row is as it was when it left
        select
            *,
            last_value(if(is_state, null, place), true) over (
                partition by
                    transaction_id,
                    if(is_state, previous_key, {{ key_text('key') }}),
                    if(is_state, {{ key_text('key') }}, next_key)
                -- they share a position, and may stand in two partitions
                order by position, is_state, place
                rows between unbounded preceding and current row
            ) as left_at
        from filled_alone
        where if(is_state, previous_key, next_key) is not null
    ) as moved
    lateral view explode(array(
        struct(
            previous_key as of_key,
            if(transaction_id is null, place, coalesce(left_at, place)) as place,
            false as is_own,
            -- where nothing tells when the row left its old key, the state before that is looked for behind it
            transaction_id is null or left_at is null as is_behind
        ),
        struct({{ key_text('key') }} as of_key, place, true as is_own, false as is_behind)
    )) asked_for as question
    where previous_key is not null and size(unresolved_columns) > 0

),

answers as (

    select
        asker,
        coalesce(any_value(answer) filter (where not is_own), any_value(answer) filter (where is_own)) as answer
    from (
        select
            asker,
            is_own,
            if(
                is_behind,
                last_value(if(leaves, null, answer), true) over so_far,
                last_value(answer, true) over so_far
            ).row as answer
        from questions
        -- a change asks for what was before it, so before it tells its own state
        window so_far as (
            partition by of_key order by place, asker is null rows between unbounded preceding and current row
        )
    ) as answered
    where asker is not null
    group by asker

),

resolved as (

    select explode(aggregate(
        links,
        cast(map() as map<string, struct<
            state: {{ state_type(table) }}, unresolved_columns: array<string>{{ ', exact_values: map<string, string>' if exact }}
        >>),
        (earlier, link) -> map_concat(earlier, map(link.change_id, {{ resolved_link(table, hazards) }}))
    )) as (link, row)
    from (
        select
            {{ in_order_of_place('struct(place, change_id, state, unresolved_columns, ' ~ exact ~ 'answer)') }} as links
        from (
            select
                *,
                -- few rows are moved twice: without one no link needs another, and each is followed alone
                bool_or(
                    answer.link is not null and arrays_overlap(unresolved_columns, answer.unresolved_columns)
                ) over () as are_linked
            from filled_alone
            -- of a move that is one change, what leaves the old key asks for nothing
            inner join answers on change_id = asker and previous_key is not null
        ) as asking
        group by if(are_linked, null, change_id)
    ) as in_order

),

{{ last }} as (

    select
        filled_alone.* except (state, unresolved_columns, {{ exact }}link),
        if(state is null or row is null, state, {% call(spec) struct_by_column(table.columns) -%}
            if(
                array_contains(filled_alone.unresolved_columns, {{ text_literal(spec.name) }}),
                row.state.{{ quoted(spec.name) }},
                state.{{ quoted(spec.name) }}
            )
        {%- endcall %}) as state,
        {%- if exact %}
        if(
            row is null,
            filled_alone.exact_values,
            map_concat(filled_alone.exact_values, map_filter(
                row.exact_values, (name, text) -> array_contains(filled_alone.unresolved_columns, name)
            ))
        ) as exact_values,
        {%- endif %}
        if(
            row is null,
            filled_alone.unresolved_columns,
            filter(filled_alone.unresolved_columns, name -> array_contains(row.unresolved_columns, name))
        ) as unresolved_columns
    from filled_alone
    left join resolved on filled_alone.link = resolved.link

)
{%- endmacro %}


{#- Expression in `link` and `earlier`, the links before it: the state of a change that brought a row from another key. -#}
{% macro resolved_link(table, hazards) -%}
    {%- set unresolved = 'array_contains(%s.unresolved_columns, name)' -%}
    named_struct(
        'state', {% call(spec) struct_by_column(table.columns) -%}
            {%- set name, column = text_literal(spec.name), quoted(spec.name) -%}
            case
                when not array_contains(link.unresolved_columns, {{ name }}) then link.state.{{ column }}
                when not array_contains(link.answer.unresolved_columns, {{ name }}) then link.answer.state.{{ column }}
                else earlier[link.answer.link].state.{{ column }}
            end
        {%- endcall %},
        'unresolved_columns', filter(
            link.unresolved_columns,
            name -> link.answer is null or (
                array_contains(link.answer.unresolved_columns, name)
                and coalesce(array_contains(earlier[link.answer.link].unresolved_columns, name), true)
            )
        )
        {%- if hazards.inexact %},
        'exact_values', map_concat(
            map_filter(link.exact_values, (name, text) -> not {{ unresolved % 'link' }}),
            coalesce(
                map_filter(
                    link.answer.exact_values,
                    (name, text) -> {{ unresolved % 'link' }} and not {{ unresolved % 'link.answer' }}
                ),
                cast(map() as map<string, string>)
            ),
            coalesce(
                map_filter(
                    earlier[link.answer.link].exact_values,
                    (name, text) -> {{ unresolved % 'link' }} and {{ unresolved % 'link.answer' }}
                ),
                cast(map() as map<string, string>)
            )
        )
        {%- endif %}
    )
{%- endmacro %}


{% macro state_type(table) -%}
    struct<
    {%- for spec in table.columns -%}
        {{ quoted(spec.name) }}: {{ spec.type }}{{ ', ' if not loop.last }}
    {%- endfor -%}
    >
{%- endmacro %}
