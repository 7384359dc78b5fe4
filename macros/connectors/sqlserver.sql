{#-
  SQL Server, by change tables. Log sequence numbers are hexadecimal of a fixed width (`00000025:00000410:0001`), so their
  text sorts as they do; a text without a colon, as Informix has, is none. `event_serial_no` tells apart what one of them
  has: a change of key is a delete (1) and an insert (2), an update is 2. A read has the `commit_lsn` of its snapshot alone.
  No truncate is ever told: the server refuses to truncate a table with change tables.
-#}
{% macro sqlserver() -%}
    {{ return({
        'names': ['sqlserver'],
        'fields': ['commit_lsn', 'change_lsn', 'event_serial_no'],
        'position': 'if(contains(coalesce(source.commit_lsn, source.change_lsn), \':\'), ' ~ position_of([
            nulls_first('source.commit_lsn'),
            nulls_first('source.change_lsn'),
            nulls_first(sortable_number('source.event_serial_no'))
        ]) ~ ', null)',
        'identity': 'array(source.commit_lsn, source.change_lsn, source.event_serial_no)',
        'transaction': 'coalesce(source.commit_lsn, transaction.id)',
        'boundary': 'boundary.id',
        'collections': [['db', 'schema', 'table'], ['db', 'schema', 'db', 'table']],
        'is_before_whole': true
    }) }}
{%- endmacro %}
