{#-
  What makes two records one change (R3): a structure to hash. Position as the event gives it, never `total_order` and
  never the envelope's time, which differ between deliveries of one change. Reads tie, so their content counts too.
-#}
{% macro change_identity(key, op, connector, source, content) -%}
    named_struct(
        'key', {{ key }},
        'op', {{ op }},
        'transaction', {{ source }}.`txId`,
        'lsn', {{ source }}.lsn,
        'sequence', if({{ source }}.lsn is null, {{ source }}.sequence, null),
        'server', {{ source }}.server_id,
        'file', {{ source }}.file,
        'pos', {{ source }}.pos,
        'row', {{ source }}.row,
        'content', if({{ op }} = 'r', {{ content }}, null)
    )
{%- endmacro %}
