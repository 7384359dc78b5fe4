{#-
  Laws of a history that a version and the next one of its key show between them. They are judged from gold's own columns, as
  a reader of the table would: the fold is not asked. dbt's tests and Great Expectations take the same conditions, of which
  each tells its own fault: what runs back or is open too long is no overlap.
-#}


{#-
  Query: the versions of a history under the names of gold's own columns: the key as `identity`, and of its next version in
  order (R4) `has_next` and `next_from`. It asks nothing of dbt.

  Args:
      names: own column → its name in the history
-#}
{% macro versions_with_next(history, key, names) -%}
select
    *,
    lead(true, 1, false) over by_place as has_next,
    lead(valid_from) over by_place as next_from
from (
    select
        {{ struct_of_columns(key) }} as identity,
        {%- for name in [
            'valid_from', 'valid_to', 'is_current', 'opened_by', 'closed_by', 'previous_key', 'next_key',
            'unresolved_columns', 'exact_values', 'version_id'
        ] %}
        {{ own(name, names) }} as {{ name }},
        {%- endfor %}
        {{ place_of_version(names) }} as place
    from {{ history }}
) as versions
window by_place as (partition by identity order by place)
{%- endmacro %}


{#-
  The same of a model that a test of dbt's is of. Whatever the test's arguments were when it was written, what the history and
  its log declare is what the table is built by.
-#}
{% macro versions_of_model(history, key, column_names) -%}
    {%- set changes = declared_by(node_of(history)).get('changes') -%}
    {%- set log = declared_by(model_node(changes)) if changes else {} -%}
    {{ versions_with_next(history, log.get('key') or key, names_of_model(history, column_names)) }}
{%- endmacro %}


{#- Own column → its name in a history: as that declares them, or else as a test of it says. -#}
{% macro names_of_model(history, column_names) -%}
    {{ return(declared_by(node_of(history)).get('column_names', column_names)) }}
{%- endmacro %}


{#- Condition: whether a version ends before it begins (R10). Empty intervals are common. -#}
{% macro ends_before_it_begins() -%}
    valid_to < valid_from
{%- endmacro %}


{#- Condition: whether the next version begins before this one (R4, R10). -#}
{% macro runs_back() -%}
    next_from < valid_from
{%- endmacro %}


{#- Condition: whether a closed version covers an instant that the next one covers. -#}
{% macro overlaps_next() -%}
    next_from >= valid_from and next_from < valid_to
{%- endmacro %}


{#- Condition: whether a version is open and not its key's last. -#}
{% macro is_open_before_next() -%}
    valid_to is null and has_next
{%- endmacro %}


{#- Condition: whether `is_current`, `valid_to` and `closed_by` tell different things. -#}
{% macro is_marked_otherwise() -%}
    not is_current <=> (valid_to is null) or (closed_by is null) != (valid_to is null)
{%- endmacro %}


{#-
  Condition: whether no version follows at once where an update closed one (R9). A gap comes after a delete, a truncate or a
  change of key (R13), or where a complete snapshot lacked the row (R16).
-#}
{% macro has_unexplained_gap() -%}
    closed_by = 'update' and not (has_next and next_from <=> valid_to)
{%- endmacro %}
