{#- What a change is, by its operation and by its snapshot's marker (R9, R16): conditions over a log. -#}


{#-
  Condition: whether a change leaves its row with a state.

  Args:
      relation: the relation that has it, where it has to be named
-#}
{% macro is_state_op(relation=none) -%}
    {{ relation ~ '.' if relation }}op in ('c', 'u', 'r')
{%- endmacro %}


{#-
  Condition: whether a change is a read of a snapshot that is no incremental one.

  Args:
      marker: the snapshot's marker of a change; its column in a log
-#}
{% macro is_snapshot_read(marker='snapshot') -%}
    op = 'r' and {{ marker }} != 'incremental'
{%- endmacro %}


{#- Condition: whether such a read is marked as the last one of its snapshot, or of its table in that. -#}
{% macro marks_last() -%}
    snapshot in ('last', 'last_in_data_collection')
{%- endmacro %}
