{#-
  MySQL and MariaDB. Files of the binary log are numbered: `mariadb-bin.000012` is before `mariadb-bin.000100`, and before
  `mariadb-bin.1000000`. Rows of one event share `pos` and differ in `row`; a truncate and a schema change bear the one that
  the last row before them left behind. Another server, or another name of its files, is another log; `server_id` 0 is the
  mark of a snapshot read, and flattened rows can lack it: their times alone show another log. An incremental read bears the
  `gtid` of the event that closed its window, and is in no transaction all the same. A truncate is a transaction by itself: of
  MySQL's neither BEGIN nor END is told, as of what XA commits, of MariaDB's only BEGIN. The row image is FULL, or the connector
  refuses to start. The server rounds a FLOAT that it sends as text, as snapshots read it.

  A heartbeat that a quiet server sends bears the log's end as the place behind it, and is written nowhere: a read that is sent
  at one stands as much before the end as it is long, 19 bytes, the file's name and a checksum, if there are any, of 4.
-#}
{% macro mysql() -%}
    {%- set row = "if(op != 't', source.`row`, null)" -%}
    {%- set file = sortable_number("regexp_extract(source.file, '([0-9]+)$', 1)") -%}
    {%- set end = sortable_number('cast(try_cast(source.pos as bigint) + length(source.file) + more as string)') -%}
    {{ return({
        'names': ['mysql', 'mariadb'],
        'fields': ['server_id', 'file', 'pos', 'row', 'gtid'],
        'position': position_of([
            file,
            sortable_number('source.pos'),
            sortable_number('coalesce(' ~ row ~ ", '0')")
        ]),
        'identity': "array(nullif(source.server_id, '0'), source.file, source.pos, " ~ row ~ ')',
        'is_of_one_row': row ~ ' is not null',
        'ends': "if(op = 'r', transform(array(19, 19 + 4), more -> " ~ position_of([file, end]) ~ '), null)',
        'server': "concat(source.server_id, ' ', regexp_extract(source.file, '^(.*?)[.]?[0-9]*$', 1))",
        'transaction': 'coalesce(source.gtid, transaction.id)',
        'boundary': 'boundary.id',
        'collections': [['db', 'table']],
        'is_alone': "(op = 't')",
        'previous_table': renamed_by_statement(),
        'is_before_whole': true,
        'rounds_floats': true
    }) }}
{%- endmacro %}


{#- Expression: the name that a statement takes from `table`, which it renames; of several clauses each has an event. -#}
{% macro renamed_by_statement() -%}
    {%- set part = '(?:`(?:[^`]|``)+`|"[^"]+"|[^\\s`".,;]+)' -%}
    {%- set name = '(?:' ~ part ~ '\\s*[.]\\s*)?(' ~ part ~ ')' -%}
    {%- set statement = (
        '(?is)^\\s*(?:rename|alter(?:\\s+(?:online|offline|ignore))*)\\s+tables?\\s+(?:if\\s+exists\\s+)?' ~ name
        ~ '\\s+(?:(?:wait\\s+[0-9]+\\s+|nowait\\s+)?to|(?:.*?[\\s,])?rename(?:\\s+(?:to|as))?)\\s+' ~ name
        ~ '\\s*(?:[,;].*)?$'
    ) -%}
    {{ bound(
        'names',
        "transform(array(1, 2), number -> replace(regexp_replace(regexp_extract(ddl, " ~ text_literal(statement)
            ~ ", number), '^[`\"]|[`\"]$', ''), '``', '`'))",
        "if(lower(names[1]) = lower(`table`) and names[0] != `table`, names[0], null)"
    ) }}
{%- endmacro %}
