{#- The model that says what a history may not show yet; none where its source isn't declared `consistent`. -#}
{% macro transactions_of(changes) -%}
    {%- set its_source = source_with(changes, 'consistent') -%}
    {{ return(its_source ~ '_transactions' if its_source else none) }}
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
