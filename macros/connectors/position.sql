{#-
  The order of every connector, in one place: text that sorts as the source's log does. Owns R4. Numbers are padded, so
  that text order is number order.

  Args are expressions: `source` is the envelope's source block, all text; `snapshot_lsn` is the lsn of the last
  snapshot read before the change by offset in its partition (S in R4), NULL where there is none.

  S counts beyond R4's words: after a blocking snapshot the connector's last commit is older than the snapshot until the
  first commit behind it; what was written behind the snapshot's place was committed behind it all the same.
-#}
{% macro position(connector, source, snapshot_lsn) -%}
    case {{ connector }}
        when 'postgresql' then {{ postgresql_position(source, snapshot_lsn) }}
        when 'mysql' then {{ mysql_position(source) }}
        when 'mariadb' then {{ mysql_position(source) }}
    end
{%- endmacro %}


{#-
  `sequence` is the text of a JSON list of texts: the last commit's position and the change's own. An element that is
  null comes out of Spark's `get_json_object` as the text `null`.
-#}
{% macro postgresql_position(source, snapshot_lsn) -%}
    {%- set commit = "nullif(get_json_object(" ~ source ~ ".sequence, '$[0]'), 'null')" -%}
    {%- set own = "nullif(get_json_object(" ~ source ~ ".sequence, '$[1]'), 'null')" -%}
    case
        when {{ is_read(source) }} and {{ source }}.lsn is not null
            then {{ places(source ~ '.lsn', "'0'") }}
        when {{ is_read(source) }} then {{ places(committed_behind(commit, own, snapshot_lsn), own) }}
        else {{ places(
            committed_behind(commit, source ~ '.lsn', snapshot_lsn), source ~ '.lsn'
        ) }}
    end
{%- endmacro %}


{#- Expression: the place of the last commit that is known to be before a change. -#}
{% macro committed_behind(commit, lsn, snapshot_lsn) -%}
    cast(if(
        {{ commit }} is null or cast({{ lsn }} as bigint) > {{ snapshot_lsn }},
        greatest(cast(coalesce({{ commit }}, {{ lsn }}) as bigint), {{ snapshot_lsn }}),
        cast({{ commit }} as bigint)
    ) as string)
{%- endmacro %}


{#- Files are numbered: `mariadb-bin.000012` is before `mariadb-bin.000100`, and before `mariadb-bin.1000000`. -#}
{% macro mysql_position(source) -%}
    {{ places(
        "regexp_extract(" ~ source ~ ".file, '([0-9]+)$', 1)",
        source ~ '.pos',
        'coalesce(' ~ source ~ ".row, '0')"
    ) }}
{%- endmacro %}


{#-
  Expression: the server and the name of its log, where an event tells; NULL for reads, which MySQL's and MariaDB's
  connectors write with server 0.
-#}
{% macro server_log(op, source) -%}
    if({{ op }} = 'r', null, nullif(concat_ws(' ', {{ source }}.server_id, regexp_extract({{ source }}.file, '^(.*?)[.]?[0-9]*$', 1)), ''))
{%- endmacro %}


{#- Expression: a read without a position follows the greatest before it by offset in its partition (R4). -#}
{% macro followed_position() -%}
    coalesce(told_position, max(told_position) over (
        partition by source_label, topic, `partition`, log_number
        order by `offset`
        rows between unbounded preceding and 1 preceding
    ), '')
{%- endmacro %}


{#- Numbers as text that sorts like them, joined; NULL where the first is. -#}
{% macro places() -%}
    {%- for number in varargs %}{{ "concat(" if loop.first }}lpad(coalesce({{ number }}
        {%- if not loop.first %}, '0'{% endif %}), 20, '0'){{ ", ':', " if not loop.last else ")" }}{% endfor -%}
{%- endmacro %}


{#- Whether a change is a snapshot read: the marker is a boolean or a text, and absent or null when streaming. -#}
{% macro is_read(source) -%}
    coalesce({{ source }}.snapshot, 'false') != 'false'
{%- endmacro %}
