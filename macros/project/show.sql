{#-
  What `dbt show` asks, as dbt writes it. In a session rows go through Python, which tells times in the zone of its process
  and doesn't name it; all else that Tidemark shows is in UTC.
-#}
{% macro spark__get_limit_sql(sql, limit) -%}
    {%- set zone = modules.datetime.datetime.now().astimezone().tzname() -%}
    {%- if has_one_session() and zone != 'UTC' -%}
        {%- do exceptions.warn(
            'Times are shown in the zone of this machine, ' ~ zone ~ '. Run dbt with TZ=UTC to see those of the tables.'
        ) -%}
    {%- endif -%}
    {{ default__get_limit_sql(sql, limit) }}
{%- endmacro %}
