{#-
  How far a model has read, in numbers of landings. Progress is only a way to read less: a model that reads a
  landing twice arrives at the same table (G4), and a lost record of progress costs time alone.
-#}
{% macro last_batch_of(model_id) -%}
    {%- set found = run_query(
        'select max(batch_id) from ' ~ lakehouse_table('ops', 'progress')
        ~ ' where model = ' ~ text_literal(model_id)
    ) -%}
    {{ return(found.columns[0].values()[0] or 0) }}
{%- endmacro %}


{#- After a run: write down, in one commit, how far each model came. Writes nothing where nothing moved (G3). -#}
{% macro tidemark_end(results) -%}
    {%- if execute and flags.WHICH in ('run', 'build', 'retry') -%}
        {%- set moved = [] -%}
        {%- for result in results
            if result.node.resource_type == 'model' and result.status == 'success'
            and (result.adapter_response or {}).get('code') -%}
            {%- do moved.append(
                '(' ~ text_literal(result.node.unique_id) ~ ', ' ~ result.adapter_response['code'] ~ ', '
                ~ text_literal(invocation_id) ~ ", timestamp'" ~ run_started_at.strftime('%Y-%m-%d %H:%M:%S.%f') ~ "')"
            ) -%}
        {%- endfor -%}
        {%- if moved -%}
            {%- do run_query('insert into ' ~ lakehouse_table('ops', 'progress') ~ ' values ' ~ moved | join(', ')) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}
