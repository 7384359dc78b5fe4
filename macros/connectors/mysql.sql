{#-
  MySQL and MariaDB. Files of the binary log are numbered: `mariadb-bin.000012` is before `mariadb-bin.000100`, and before
  `mariadb-bin.1000000`. Rows of one event share `pos` and differ in `row`; a truncate and a schema change bear the one that
  the last row before them left behind. Another server, or another name of its files, is another log; `server_id` 0 is the
  mark of a snapshot read. An incremental read bears the `gtid` of the event that closed its window, and is in no
  transaction all the same. The row image is FULL, or the connector refuses to start.
-#}
{% macro mysql() -%}
    {%- set row = "if(op != 't', source.`row`, null)" -%}
    {{ return({
        'names': ['mysql', 'mariadb'],
        'fields': ['server_id', 'file', 'pos', 'row', 'gtid'],
        'position': position_of([
            sortable_number("regexp_extract(source.file, '([0-9]+)$', 1)"),
            sortable_number('source.pos'),
            sortable_number('coalesce(' ~ row ~ ", '0')")
        ]),
        'identity': "array(nullif(source.server_id, '0'), source.file, source.pos, " ~ row ~ ')',
        'is_tied': none,
        'is_of_one_row': row ~ ' is not null',
        'server': "nullif(concat_ws(' ', source.server_id, regexp_extract(source.file, '^(.*?)[.]?[0-9]*$', 1)), '')",
        'transaction': 'coalesce(source.gtid, transaction.id)',
        'boundary': 'boundary.id',
        'collections': [['db', 'table']],
        'is_before_whole': true
    }) }}
{%- endmacro %}
