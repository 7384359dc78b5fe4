{#-
  Db2, by change tables, with log sequence numbers as SQL Server's and no serial number: the halves of a change of key can
  have one position, and then their offsets order them. A read has the `commit_lsn` of its snapshot alone. No truncate is
  ever told.
-#}
{% macro db2() -%}
    {{ return({
        'names': ['db2'],
        'fields': ['commit_lsn', 'change_lsn'],
        'position': 'if(contains(coalesce(source.commit_lsn, source.change_lsn), \':\'), ' ~ position_of([
            nulls_first('source.commit_lsn'), nulls_first('source.change_lsn')
        ]) ~ ', null)',
        'identity': 'array(source.commit_lsn, source.change_lsn)',
        'is_tied': 'true',
        'transaction': 'coalesce(source.commit_lsn, transaction.id)',
        'boundary': 'boundary.id',
        'collections': [['schema', 'table'], ['db', 'schema', 'table']],
        'is_before_whole': true
    }) }}
{%- endmacro %}
