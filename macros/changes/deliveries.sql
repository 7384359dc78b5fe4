{#- Which deliveries repeat one another, and which of them counts (R3). -#}


{#- Expression: which delivery of a change, or of another record, this is; the first is the one that counts (R3). -#}
{% macro delivery_of(id) -%}
    row_number() over (partition by {{ id }} order by {{ place_of_delivery(id) | join(', ') }}, content_hash)
{%- endmacro %}


{#- Condition: whether two relations' rows are of one partition of a topic. -#}
{% macro is_same_partition(one, other, in_one_log=false) -%}
    {{ one }}.source_label = {{ other }}.source_label and {{ one }}.topic = {{ other }}.topic
        and {{ one }}.`partition` = {{ other }}.`partition`
        {{- ' and ' ~ one ~ '.log_number = ' ~ other ~ '.log_number' if in_one_log }}
{%- endmacro %}


{#- Expression: what names a delivery where nothing names the thing that it delivers: then it repeats no other. -#}
{% macro delivery_itself() -%}
    array(source_label, topic, cast(`partition` as string), cast(`offset` as string), content_hash)
{%- endmacro %}


{#-
  The columns that deliveries of one change, or of another record, are told apart by, in their order. A topic that was made anew
  (R1) can have a change, as one read again, at the offset that it had: it counts as it was written first. Of records with
  other bytes at one offset (headers that a file has left out) `content_hash` decides, which a log keeps as `content_order`.
-#}
{% macro place_of_delivery(id) -%}
    {{ return(['`partition`', '`offset`'] + (['processed_at'] if id == 'change_id' else []) + ['topic', 'source_label']) }}
{%- endmacro %}


{#- Expression: a number for `content_hash`, in its order: the first 60 bits, as a log keeps that of each change. -#}
{% macro content_order() -%}
    cast(conv(left(content_hash, 15), 16, 10) as bigint)
{%- endmacro %}


{#-
  Query: the changes of a table without a key, with `ordinal`: which of the equal changes of one run of deliveries each
  is (R3). Equal changes at one position within a run are different changes, and only a later run repeats them. A run
  ends where the position falls back or, where it ties in one transaction, `total_order` does not rise; a change without
  a place tells nothing of it. Equal reads are one change, and so are equal changes where a position is that of one row.

  Args:
      among: names of connectors, as `connectors` takes them
-#}
{% macro numbered_in_runs(changes, among) -%}
    {%- set by_offset = 'partition by source_label, topic, `partition`, log_number order by `offset` rows between unbounded preceding' -%}
    select
        *,
        case
            when op = 'r' then 0
            when {{ by_connector('is_of_one_row', among) }} then 1
            else row_number() over (
                partition by source_label, topic, `partition`, log_number, run_no, {{ exact_json('identity') }} order by `offset`
            )
        end as ordinal
    from (
        select
            *,
            sum(if(op != 'r' and (
                if(
                    streamed.place <=> last_streamed.place and streamed.transaction_id <=> last_streamed.transaction_id,
                    coalesce(streamed.total_order, 0) <= last_streamed.total_order,
                    streamed.place < last_streamed.place
                )
            ), 1, 0)) over ({{ by_offset }} and current row) as run_no
        from (
            select
                *,
                last_value(if(op != 'r' and place is not null, streamed, null), true) over ({{ by_offset }} and 1 preceding)
                    as last_streamed
            from (
                select
                    *,
                    {{ change_identity([], among) }} as identity,
                    struct(
                        place,
                        {{ transaction_id(among) }} as transaction_id,
                        try_cast(transaction.total_order as bigint) as total_order
                    ) as streamed
                from {{ changes }}
            ) as placed
        ) as followed
    ) as run
{%- endmacro %}
