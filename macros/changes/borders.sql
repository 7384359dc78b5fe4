{#-
  Borders between the logs of a source. Owns R5.

  A position says nothing across a border (a failover, a restored server, a dropped slot, a topic made anew): what is
  behind it has the next log number, and its position begins with that. A border is declared, or found where in one
  partition

      the position falls back while the source's time goes on, or the server or its log is another: the new log begins
      right behind the highest position of the old one. A late record, older in both, is no border;
      an offset has a second record with other bytes (R1): the topic was made anew, and its second life begins with the
      first record that the connector wrote then.

  A border of a partition is {label, topic, partition, anew, starts}: `anew` are the connector's times (ms) at which the
  topic began again, `starts` are [life of the topic, offset] at which another log begins. `label` is none where declared.

  Expression: how many borders of its partition are before a record; `of_topic`, of those only new topics.
-#}
{% macro log_number(borders, of_topic=false) -%}
    {%- if not borders -%}
        0
    {%- else -%}
        case
        {%- for border in borders %}
            when {% if border.label is not none %}source_label = {{ text_literal(border.label) }} and {% endif -%}
                topic = {{ text_literal(border.topic) }} and `partition` = {{ border.partition }}
                then {{ topic_life(border) }}
                {%- for start in ([] if of_topic else border.starts) %}
                + if(struct({{ topic_life(border) }}, `offset`) >= struct({{ start[0] }}, {{ start[1] }}L), 1, 0)
                {%- endfor %}
        {%- endfor %}
            else 0
        end
    {%- endif -%}
{%- endmacro %}


{#- Expression: how often its topic was made anew before a record. -#}
{% macro topic_life(border) -%}
    (0{% for moment in border.anew %} + if(processed_at_ms >= {{ moment }}L, 1, 0){% endfor %})
{%- endmacro %}


{#- Expression: a position among those of all logs; behind a border it begins with `log`, which sorts behind digits. -#}
{% macro position_across_logs(position, borders) -%}
    {%- if borders -%}
        if(log_number = 0, {{ position }}, concat('log', lpad(log_number, 5, '0'), ':', {{ position }}))
    {%- else -%}
        {{ position }}
    {%- endif -%}
{%- endmacro %}


{#- Expression: a position as its own log has it. -#}
{% macro position_in_log() -%}
    if(log_number = 0, position, substring(position, 10))
{%- endmacro %}


{#- The borders that a source's option `new_logs` declares. -#}
{% macro declared_borders(new_logs) -%}
    {%- set borders = [] -%}
    {%- for one in new_logs -%}
        {%- do borders.append({
            'label': none, 'topic': one.topic, 'partition': one.partition, 'anew': [], 'starts': [[0, one.offset]]
        }) -%}
    {%- endfor -%}
    {{ return(borders) }}
{%- endmacro %}


{#-
  The borders that a log shows, with the declared ones. They depend on what the log says and on nothing else, so that
  the order of landings doesn't matter (G1). Every round of questions finds the next border of each partition.
-#}
{% macro found_borders(log, declared) -%}
    {%- set walk = namespace(borders=declared, grows=true) -%}
    {%- for round in range(1000) if walk.grows -%}
        {%- set anew = run_query(topics_made_anew(log, walk.borders)) -%}
        {%- set found = anew if anew | length else run_query(new_logs(log, walk.borders)) -%}
        {%- set walk.grows = found | length > 0 -%}
        {%- for row in found -%}
            {%- set walk.borders = with_border(
                walk.borders, row, {'anew': [row[3] | int]} if anew | length else {'starts': [[row[3] | int, row[4] | int]]}
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(walk.borders) }}
{%- endmacro %}


{#- Borders and one more, in the order of partitions; a found border keeps what is declared for its partition. -#}
{% macro with_border(borders, row, found) -%}
    {%- set place = {'label': row[0], 'topic': row[1], 'partition': row[2] | int} -%}
    {%- set others, own = [], namespace(border=dict(place, anew=[], starts=[])) -%}
    {%- for border in borders -%}
        {%- if border.topic == place.topic and border.partition == place.partition and border.label in (none, place.label) -%}
            {%- set own.border = dict(place, anew=border.anew, starts=border.starts) -%}
        {%- endif -%}
        {%- if border.label is none or border.topic != place.topic or border.partition != place.partition
            or border.label != place.label -%}
            {%- do others.append(border) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set border = dict(
        own.border, anew=(own.border.anew + found.get('anew', [])) | sort,
        starts=(own.border.starts + found.get('starts', [])) | sort
    ) -%}
    {{ return((others | selectattr('label') | list + [border]) | sort(attribute='label,topic,partition')
        + others | rejectattr('label') | list) }}
{%- endmacro %}


{#- Query: partitions in which an offset has two records of one life of the topic, and when the later was written. -#}
{% macro topics_made_anew(log, borders) -%}
    select source_label, topic, `partition`, min(later) as anew
    from (
        select source_label, topic, `partition`, max(processed_at_ms) as later
        from ({{ with_log_number(log, borders) }}) as placed
        group by source_label, topic, `partition`, log_number, `offset`
        having max(processed_at_ms) > min(processed_at_ms)
    ) as doubled
    group by source_label, topic, `partition`
    order by source_label, topic, `partition`
{%- endmacro %}


{#- Query: the first new log of each partition, behind the borders that are known: life of the topic and offset. -#}
{% macro new_logs(log, borders) -%}
    select
        source_label, topic, `partition`,
        min_by(topic_life, struct(log_number, `offset`)) as life,
        min_by(highest.`offset` + 1, struct(log_number, `offset`)) as start
    from (
        select
            *,
            max(struct(position, server, `offset`)) over before as highest,
            max(changed_at) over before as latest
        from ({{ with_log_number(log, borders) }}) as placed
        window before as (
            partition by source_label, topic, `partition`, log_number
            order by `offset` rows between unbounded preceding and 1 preceding
        )
    ) as followed
    where {{ begins_new_log('highest', 'latest') }}
    group by source_label, topic, `partition`
    order by source_label, topic, `partition`
{%- endmacro %}


{#- Condition: whether a change can't be in the log whose highest position and latest time before it are given. -#}
{% macro begins_new_log(highest, latest) -%}
    position < {{ highest }}.position and (changed_at > {{ latest }} or server != {{ highest }}.server)
{%- endmacro %}


{% macro with_log_number(log, borders) -%}
    select
        source_label, topic, `partition`, `offset`, server, changed_at, processed_at_ms, position,
        {{ log_number(borders) }} as log_number,
        {{ log_number(borders, of_topic=true) }} as topic_life
    from (
        select
            * except (position, log_number), {{ position_in_log() }} as position,
            unix_millis(processed_at) as processed_at_ms
        from {{ log }}
    ) as log
{%- endmacro %}
