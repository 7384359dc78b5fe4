{#- Models in dbt's graph, and what is built of them. -#}


{#- A model's node in dbt's graph, by its name. -#}
{% macro model_node(name) -%}
    {%- for node in graph.nodes.values() if node.resource_type == 'model' and node.name == name -%}
        {{ return(node) }}
    {%- endfor -%}
    {{ exceptions.raise_compiler_error(model.name ~ ": there is no model '" ~ name ~ "'.") }}
{%- endmacro %}


{#- A relation's node in dbt's graph, which is empty in a unit test; none where it is no model's. -#}
{% macro node_of(relation) -%}
    {%- for node in ((graph.get('nodes') or {}).values() if execute else [])
        if node.resource_type == 'model' and node.schema == relation.schema and node.alias == relation.identifier -%}
        {{ return(node) }}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#- The node in dbt's graph of a table of a dbt source, by `source.table`; none where there is none, or dbt only parses. -#}
{% macro source_table(name) -%}
    {%- for node in (graph.sources.values() if execute else []) if node.source_name ~ '.' ~ node.name == name -%}
        {{ return(node) }}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#- The relation of a model, whether or not this one is built from it directly. -#}
{% macro relation_of(name) -%}
    {%- set node = model_node(name) -%}
    {{ return(api.Relation.create(schema=node.schema, identifier=node.alias)) }}
{%- endmacro %}


{#- A model that this one is built from; under `--empty` dbt's stand-in for it can't be given a name in a query. -#}
{% macro read(name) -%}
    {%- set upstream = ref(name) -%}
    {{ return(relation_of(name) if is_empty() and execute else upstream) }}
{%- endmacro %}


{#- What a macro of Tidemark notes in its model's node; nothing where no macro has written the model, or there is no node. -#}
{% macro declared_by(node) -%}
    {{ return(((node.config.meta if node else none) or {}).get('tidemark') or {}) }}
{%- endmacro %}


{#-
  What a history of a changes model declares; of a model of one's own the same of the one such history that it is built from,
  through others or not. Nothing where there are none, or several.
-#}
{% macro declared_by_history(relation, changes) -%}
    {%- set built_from = [node_of(relation).unique_id] -%}
    {%- set found = [] -%}
    {#- The list grows while it is read. -#}
    {%- for id in built_from if id in graph.nodes -%}
        {%- set node = graph.nodes[id] -%}
        {%- if declared_by(node).get('changes') == node_of(changes).name -%}
            {%- do found.append(declared_by(node)) -%}
        {%- else -%}
            {%- do built_from.extend(node.depends_on.nodes | reject('in', built_from)) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found[0] if found | length == 1 else {}) }}
{%- endmacro %}
