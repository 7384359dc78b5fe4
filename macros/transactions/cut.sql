{#-
  The model that says what a history may not show yet; none where its source isn't declared `consistent`. Known by the
  name of the changes model, which begins with its source's: while dbt parses there is nothing else to know it by.
-#}
{% macro transactions_of(changes) -%}
    {%- set its_source = source_named_in(changes) -%}
    {%- set is_consistent = its_source and var('sources')[its_source].get('consistent') -%}
    {%- if not is_consistent -%}{%- do only_named_by_source(changes, 'consistent') -%}{%- endif -%}
    {{ return(its_source ~ '_transactions' if is_consistent else none) }}
{%- endmacro %}


{#- Stop where the source of a changes model has an option that its histories know by that model's name, which is another. -#}
{% macro only_named_by_source(changes, option) -%}
    {%- if execute and graph.nodes
        and source_options(model_node(changes).config.meta.tidemark.source.split('.', 1)[0])[option] -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': its source is declared `' ~ option ~ '`, and a history of it is built from a changes model named'
            ~ ' <source>__<table>_changes; ' ~ changes ~ ' is not.'
        ) }}
    {%- endif -%}
{%- endmacro %}


{#- Of the sources that have options the one that the name of a changes model begins with: the longest. -#}
{% macro source_named_in(changes) -%}
    {%- set named = namespace(source='') -%}
    {%- for name, options in declared_sources().items()
        if options is mapping and changes.startswith(name ~ '__') and name | length > named.source | length -%}
        {%- set named.source = name -%}
    {%- endfor -%}
    {{ return(named.source or none) }}
{%- endmacro %}


{#- The position from which on a log is not to be shown yet (G7); none where all of it may be. -#}
{% macro cut_of(changes) -%}
    {%- set transactions_model = transactions_of(changes) -%}
    {%- if transactions_model and is_building() -%}
        {%- set cut = run_query(
            'select min(positions[' ~ text_literal(changes) ~ ']) from ' ~ relation_of(transactions_model)
        )[0][0] -%}
        {{ return(cut) }}
    {%- endif -%}
    {{ return(none) }}
{%- endmacro %}


{#- Relation: a log as a history reads it: its rows name the columns that came late (R8), and it ends at the cut (G7). -#}
{% macro log_shown(changes_log, built, cut) -%}
    {%- set log = with_late_columns(changes_log, built.get('late')) -%}
    {%- if cut is none -%}
        {{ log }}
    {%- else -%}
        (select * from {{ log }} where position < {{ text_literal(cut) }})
    {%- endif -%}
{%- endmacro %}
