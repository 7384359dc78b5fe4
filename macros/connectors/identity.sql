{#-
  What makes two records one change: a structure to hash. Owns R3. Position as the event gives it, never `total_order` and
  never the envelope's time, which differ between deliveries of one change. Content counts where positions tie: for
  reads, and for changes without a key.

  Args:
      key: the declared key, whose value is in `key_struct`, or where that has a `problem` in `key_text`; none for a table without one
      op, source, content: expressions; which log of the source (R5) the change is in is in `log_number`
-#}
{% macro change_identity(key, op, source, content) -%}
    named_struct(
        {%- if key %}
        'key', key_struct,
        'undecoded', if(problem is null, null, key_text),
        {%- endif %}
        'log', nullif(log_number, 0),
        'op', {{ op }},
        'transaction', {{ source }}.`txId`,
        'lsn', {{ source }}.lsn,
        'sequence', if({{ source }}.lsn is null, {{ source }}.sequence, null),
        'server', nullif({{ source }}.server_id, '0'),
        'file', {{ source }}.file,
        'pos', {{ source }}.pos,
        'row', {{ source }}.row,
        'content', {{ 'if(' ~ op ~ " = 'r', " ~ content ~ ', null)' if key else content }}
    )
{%- endmacro %}
