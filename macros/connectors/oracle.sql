{#-
  Oracle. Events come when their transaction commits, so along a topic `commit_scn` rises, while `scn`, the change's own
  system change number, rises and falls. Both are texts of digits and can be greater than a bigint. `rs_id` and `ssn`
  tell changes of one number apart. A snapshot read has the snapshot's `scn` and no transaction.

  `before` is the whole row with supplemental logging of all columns alone; a LOB that changed is a placeholder even then.
-#}
{% macro oracle() -%}
    {{ return({
        'names': ['oracle'],
        'fields': ['txId', 'scn', 'commit_scn', 'rs_id', 'ssn'],
        'position': position_of([
            sortable_number('coalesce(source.commit_scn, source.scn)', 38),
            nulls_first(sortable_number('source.scn', 38)),
            nulls_first('source.rs_id'),
            nulls_first(sortable_number('source.ssn'))
        ]),
        'identity': 'array(source.commit_scn, source.scn, source.rs_id, source.ssn, source.`txId`)',
        'is_tied': false,
        'server': none,
        'transaction': 'coalesce(source.`txId`, transaction.id)',
        'boundary': 'told.id',
        'collections': [['db', 'schema', 'table']],
        'is_before_whole': false
    }) }}
{%- endmacro %}
