{#- What dbt knows of the histories that queries for analysts read. -#}


{#-
  Own column → its name in a history: what the query is told, or else as the history declares it. Of one that is no model, and in
  a unit test, dbt knows nothing.

  Args:
      option: the argument in which the query is told names
      of_query: the query's own columns, which take their names from there, too
-#}
{% macro names_in(history, told, option='column_names', of_query=[]) -%}
    {%- do only_known_options(option, told, (own_columns() + of_query) | unique | list) -%}
    {{ return(dict(names_of_model(history, {}), **told)) }}
{%- endmacro %}


{#- Stop where a query takes another key than the history's: it would tell the rows of several keys as one's. -#}
{% macro only_its_key(history, key) -%}
    {%- set changes = declared_by(node_of(history)).get('changes') -%}
    {%- set declared = declared_by(model_node(changes)).get('key') if changes else none -%}
    {%- if declared and folded_names(key) | sort != folded_names(declared) | sort -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': key is ' ~ tojson(key) ~ ', and the key of ' ~ history.identifier ~ ' is ' ~ tojson(declared) ~ '.'
        ) }}
    {%- endif -%}
{%- endmacro %}
