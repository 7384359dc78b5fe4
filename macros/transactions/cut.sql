{#- The model that says what a history may not show yet; none where its source isn't declared `consistent`. -#}
{% macro transactions_of(changes) -%}
    {%- set its_source = source_with(changes, 'consistent') -%}
    {{ return(its_source ~ '_transactions' if its_source else none) }}
{%- endmacro %}


{#-
  The source of a changes model, where it is declared with an option; none otherwise. Known by the model's name, which begins
  with its source's: while dbt parses there is nothing else to know it by. Where the graph is there, a model that is of
  another source stops the build, if either has the option.
-#}
{% macro source_with(changes, option) -%}
    {%- set named = source_named_in(changes) -%}
    {%- set has_option = named and declared_sources()[named].get(option) -%}
    {%- if execute and graph.nodes -%}
        {%- set table = model_node(changes).config.meta.tidemark.source -%}
        {%- set its_source = table.split('.', 1)[0] -%}
        {%- if not table.startswith(named ~ '.') and (has_option or source_options(its_source)[option]) -%}
            {{ exceptions.raise_compiler_error(
                model.name ~ ': ' ~ changes ~ " is of the source '" ~ its_source ~ "', and by its name of "
                ~ (("'" ~ named ~ "'") if named else 'none') ~ '. Where a source is declared `' ~ option ~ '`, its changes models'
                ~ ' are named <source>__<table>_changes; and where its name is the beginning of another\'s, that one stands under'
                ~ ' vars: tidemark: sources as well: `' ~ its_source ~ ': {}`.'
            ) }}
        {%- endif -%}
    {%- endif -%}
    {{ return(named if has_option else none) }}
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


{#-
  The position from which on a log is not to be shown yet (G7); none where all of it may be. A run asks once for all tables of a
  source.
-#}
{% macro cut_of(changes) -%}
    {%- set transactions_model = transactions_of(changes) -%}
    {%- if transactions_model and is_building() -%}
        {%- if transactions_model not in graph.tidemark.cuts -%}
            {%- set cuts = {} -%}
            {%- for row in run_query(
                'select model, min(position) from ' ~ relation_of(transactions_model)
                ~ ' lateral view explode(positions) exploded as model, position group by model'
            ) -%}
                {%- do cuts.update({row[0]: row[1]}) -%}
            {%- endfor -%}
            {%- do graph.tidemark.cuts.update({transactions_model: cuts}) -%}
        {%- endif -%}
        {{ return(graph.tidemark.cuts[transactions_model].get(changes)) }}
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
