{#- Names of gold's own columns in their order; a source's columns come before them. -#}
{% macro own_columns() -%}
    {{ return([
        'valid_from', 'valid_to', 'is_current', 'opened_by', 'closed_by', 'previous_key', 'next_key', 'is_start_known',
        'unresolved_columns', 'exact_values', 'position', 'transaction_id', 'topic', 'partition', 'offset', 'version_id'
    ]) }}
{%- endmacro %}


{#- The names that gold's own columns have, and have in any history of a changes model, as `folded` gives them. -#}
{% macro names_of_own(changes) -%}
    {%- set names = own_columns() -%}
    {%- for node in (graph.nodes.values() if execute else []) -%}
        {%- set declared = declared_by(node) -%}
        {%- for name in (declared.column_names.values() if declared.get('changes') == changes else []) -%}
            {%- do names.append(folded(name)) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(names) }}
{%- endmacro %}


{#- The name that one of gold's own columns has in a table, quoted. -#}
{% macro own(name, column_names) -%}
    {{ quoted(column_names.get(name, name)) }}
{%- endmacro %}


{#- Query: the versions as gold's rows. -#}
{% macro version_rows(table, column_names, versions) -%}
    select
        {{ version_columns(table, column_names) }}
    from {{ versions }}
{%- endmacro %}


{#-
  Query: the committed changes of a fold that is accounted for: what is told of each, and as a struct the version that it
  opened, if it did.
-#}
{% macro accounted_rows(table, scope, tracked, column_names, versions) -%}
    {%- set version -%}
        if(is_boundary and is_state, struct(
            {{ version_columns(table, column_names) }}
        ), null) as version
    {%- endset -%}
    {{ noted_changes(table, scope, tracked, version, versions) }}
{%- endmacro %}


{#- Stop where one of gold's own columns has the name of another column. -#}
{% macro only_names_apart(columns, column_names) -%}
    {%- set taken = folded_names(columns | map(attribute='name')) -%}
    {%- for own_column in own_columns() -%}
        {%- set name = column_names.get(own_column, own_column) -%}
        {%- if folded(name) in taken -%}
            {{ exceptions.raise_compiler_error(
                model.name ~ ": Tidemark's own column " ~ own_column ~ " would be named '" ~ name ~ "', as another column is. Say"
                ~ " column_names={'" ~ own_column ~ "': …}, with a name that no column has."
            ) }}
        {%- endif -%}
        {%- do taken.append(folded(name)) -%}
    {%- endfor -%}
{%- endmacro %}


{#- Expression list: the columns of gold's rows. -#}
{% macro version_columns(table, column_names) -%}
    {%- do only_known_options('column_names', column_names, own_columns()) -%}
    {%- do only_names_apart(table.columns, column_names) -%}
        {%- for spec in table.columns %}
        {%- if spec.name in table.key %}
        key.{{ quoted(spec.name) }} as {{ quoted(spec.name) }},
        {%- else %}
        state.{{ quoted(spec.name) }} as {{ quoted(spec.name) }},
        {%- endif %}
        {%- endfor %}
        version_from as {{ own('valid_from', column_names) }},
        version_to as {{ own('valid_to', column_names) }},
        version_to is null as {{ own('is_current', column_names) }},
        opened_by as {{ own('opened_by', column_names) }},
        closed_by as {{ own('closed_by', column_names) }},
        opened_from as {{ own('previous_key', column_names) }},
        closed_into as {{ own('next_key', column_names) }},
        {{ is_start_known('opened_by') }} as {{ own('is_start_known', column_names) }},
        unresolved_columns as {{ own('unresolved_columns', column_names) }},
        exact_values as {{ own('exact_values', column_names) }},
        opening.position as {{ own('position', column_names) }},
        opening.transaction_id as {{ own('transaction_id', column_names) }},
        opening.topic as {{ own('topic', column_names) }},
        opening.`partition` as {{ own('partition', column_names) }},
        opening.`offset` as {{ own('offset', column_names) }},
        {{ version_id(table) }} as {{ own('version_id', column_names) }}
{%- endmacro %}


{#- Expression: a stable name of a version, which a carried one has already. -#}
{% macro version_id(table) -%}
    case
        when opening.change_id like 'version %' then substring(opening.change_id, 9)
        when is_again then {{ hash_of_version(table.name, is_again=true) }}
        else {{ hash_of_version(table.name) }}
    end
{%- endmacro %}


{#-
  Expression: a hash of table, key, opening position and opened_by (R3). Where a key has several such, as only events that
  contradict each other make, what tells the later ones is their delivery.
-#}
{% macro hash_of_version(source, is_again=false) -%}
    {%- set named_by -%}
        'table', {{ text_literal(source) }}, 'key', key, 'position', opening.position, 'opened_by', opened_by
    {%- endset -%}
    {%- set delivery -%}
        , 'partition', opening.`partition`, 'offset', opening.`offset`, 'topic', opening.topic
    {%- endset -%}
    sha2({{ exact_json('named_struct(' ~ named_by ~ (delivery if is_again) ~ ')') }}, 256)
{%- endmacro %}


{#- Condition: whether a version began with what opened it (R16, R19). -#}
{% macro is_start_known(opened_by) -%}
    {{ opened_by }} not in ('snapshot', 'before')
{%- endmacro %}


{#- Expression over the order of a key's boundaries: whether an earlier one opened a version at this position, and as this. -#}
{% macro opens_again() -%}
    is_state and coalesce(opening.position = case opened_by
        {%- for opened_by in ['insert', 'update', 'snapshot', 'key_change', 'before'] %}
        when '{{ opened_by }}' then max(if(is_state and opened_by = '{{ opened_by }}', opening.position, null)) over earlier
        {%- endfor %}
    end, false)
{%- endmacro %}
