{#-
  Borders between the logs of a source. Owns R5.

  A position says nothing across a border (a failover, a restored server, a dropped slot, a topic made anew): what is
  behind it has the next log number, and its position begins with that. A border is declared, or found where in one
  partition

      the position falls back, and the source's time goes on or the server or its log is another: the new log begins
      with the first change behind the highest position of the old one; deliveries that only repeat the old log don't
      count. A late record, older in both, is no border, and neither is one that PostgreSQL tells without `sequence`, or
      Oracle without its commit, nor another server whose positions go on rising. Where it is the time that tells, streamed
      changes are compared with, where there are any: a read can have a place ahead of what is streamed behind it (a
      blocking snapshot's), and its clock is its own. A read at a place that its partition has reached before tells
      nothing: a blocking snapshot that is taken again after a kill has the place of the first time, and a later clock.
      Nor does one that was sent at a heartbeat of a server that has written nothing since the highest place;
      an offset has a second record with other bytes (R1): the topic was made anew, and its second life begins with the
      first record that the connector wrote then.

  A partition that begins when all that are there have met borders (of a topic with more partitions, another name, another
  broker) begins in the log that these have reached.

  A border of a partition is {label, topic, partition, anew, starts}: `anew` are the connector's times (ms) at which the
  topic began again, `starts` are [life of the topic, offset] at which another log begins.

  Query: rows with `log_number` and, for `topic_life`, how often their topic was made anew before them.

  Args:
      rows: a relation with source_label, topic, `partition`, `offset` and processed_at_ms
-#}
{% macro with_log_number(rows, borders) -%}
    {%- if not borders -%}
    select
        *,
        0 as topic_life,
        0 as log_number
    from {{ rows }}
    {%- else -%}
    select
        *,
        topic_life + size(filter(starts, start -> struct(topic_life, `offset`) >= start)) as log_number
    from (
        select
            rows.*,
            coalesce(border.starts, array()) as starts,
            size(filter(coalesce(border.anew, array()), moment -> rows.processed_at_ms >= moment)) as topic_life
        from {{ rows }} as rows
        left join ({{ borders_as_rows(borders) }}) as border
            on {{ is_same_partition('rows', 'border') }}
    ) as bordered
    {%- endif -%}
{%- endmacro %}


{#- Query: borders as rows. -#}
{% macro borders_as_rows(borders) -%}
    select
        border.label as source_label,
        border.topic,
        border.`partition`,
        border.anew,
        transform(border.starts, start -> struct(cast(start[0] as int), start[1])) as starts
    from (
        {{ list_as_rows(
            borders, 'border',
            'array<struct<label: string, topic: string, `partition`: int, anew: array<bigint>, starts: array<array<bigint>>>>'
        ) }}
    ) as border_rows
{%- endmacro %}


{#- Expression: a position among those of all logs; behind a border it begins with `log`, which sorts behind digits. -#}
{% macro position_across_logs(position, borders) -%}
    {%- if borders -%}
        if(log_number = 0, {{ position }}, concat('log', lpad(log_number, 5, '0'), ':', {{ position }}))
    {%- else -%}
        {{ position }}
    {%- endif -%}
{%- endmacro %}


{#- Expression: the log that a position is in, by what such a position begins with. -#}
{% macro log_of_position(position='position') -%}
    if(startswith({{ position }}, 'log'), substring_index({{ position }}, ':', 1), '')
{%- endmacro %}


{#- Expression: a position as its own log has it. -#}
{% macro position_in_log() -%}
    if(log_number = 0, position, substring(position, instr(position, ':') + 1))
{%- endmacro %}


{#- Expression: a part of a position as its own log has it, by its number; '' where it has fewer. -#}
{% macro part_of_position(number) -%}
    split_part({{ position_in_log() }}, ' ', {{ number }})
{%- endmacro %}


{#- The borders that a source's option `new_logs` declares. -#}
{% macro declared_borders(new_logs) -%}
    {%- set walk = namespace(borders=[]) -%}
    {%- for one in new_logs -%}
        {%- set walk.borders = with_border(
            walk.borders, [one.get('label', 'default'), one.topic, one.partition], [], [[0, one.offset]]
        ) -%}
    {%- endfor -%}
    {{ return(walk.borders) }}
{%- endmacro %}


{#-
  Stop where a declared border names a label or a partition from which nothing of its topic has landed: it would do nothing. Of
  a topic that hasn't landed at all it warns, since that may come. Asked once a run, and not where no border is declared.
-#}
{% macro only_landed_places(new_logs) -%}
    {%- set asked = 'select distinct source_label, topic, `partition` from ' ~ lakehouse_table('bronze', 'records')
        ~ ' where topic in (' ~ text_list(new_logs | map(attribute='topic') | unique | list) ~ ')' -%}
    {%- if asked not in graph.tidemark.landed_places -%}
        {%- set landed = {} -%}
        {%- for row in run_query(asked) -%}
            {%- do landed.setdefault(row[1], {}).setdefault(row[0], []).append(row[2] | int) -%}
        {%- endfor -%}
        {%- for one in new_logs -%}
            {%- set named = 'vars: tidemark: sources: new_logs names ' ~ tojson(one) -%}
            {%- set label = one.get('label', 'default') -%}
            {%- set labels = landed.get(one.topic, {}) -%}
            {%- if not labels -%}
                {%- set topics = run_query('select distinct topic from ' ~ lakehouse_table('bronze', 'shapes')).columns[0].values() -%}
                {%- do exceptions.warn(
                    named ~ ", and nothing of that topic has landed yet. If it is misspelled, did you mean '"
                    ~ nearest_name(one.topic, topics) ~ "'?"
                ) -%}
            {%- elif label not in labels -%}
                {{ exceptions.raise_compiler_error(
                    model.name ~ ': ' ~ named ~ ", and of that topic nothing has landed under the label '" ~ label
                    ~ "'. Did you mean '" ~ nearest_name(label, labels) ~ "'? Landed: " ~ labels | sort | join(', ') ~ '.'
                ) }}
            {%- elif one.partition not in labels[label] -%}
                {{ exceptions.raise_compiler_error(
                    model.name ~ ': ' ~ named ~ ', and nothing has landed of that partition of the topic. Landed: '
                    ~ labels[label] | sort | join(', ') ~ '. Leave out one that is still empty: a partition which begins behind'
                    ~ ' the borders of the others is in their log.'
                ) }}
            {%- endif -%}
        {%- endfor -%}
        {%- do graph.tidemark.landed_places.update({asked: true}) -%}
    {%- endif -%}
{%- endmacro %}


{#-
  The borders that a table's records show, with the declared ones. They depend on what is recorded and on nothing else,
  so that the order of landings doesn't matter (G1). Every round of questions finds the next border of each partition;
  it tells anew which deliveries repeat one another, as no change is repeated across a border (R3).

  Args:
      filled: a relation that holds what `read_steps` give of all records
-#}
{% macro found_borders(filled, captured, scope) -%}
    {%- set walk = namespace(borders=declared_borders(captured.new_logs), grows=true, place=none) -%}
    {%- set has_second_lives = has_rows(doubled_offsets(filled)) -%}
    {%- for round in range(1000) if walk.grows -%}
        {%- set placed = placed_in_logs(filled, captured, dict(scope, borders=walk.borders)) -%}
        {%- set anew = run_query(topics_made_anew(placed)) if has_second_lives else [] -%}
        {%- set starts = [] if anew | length else run_query(first_new_logs(placed)) -%}
        {#- What partitions show by themselves comes first: what others tell of them rests on it. -#}
        {%- set shows_border = anew | length + starts | length > 0 -%}
        {%- set behind = run_query(begun_behind_borders(placed, filled, walk.borders)) if walk.borders and not shows_border else [] -%}
        {%- set walk.place = (anew | list + starts | list + behind | list) | first | default(none) -%}
        {%- set walk.grows = walk.place is not none -%}
        {%- for row in anew -%}
            {%- set walk.borders = with_border(walk.borders, [row[0], row[1], row[2] | int], [row[3] | int], []) -%}
        {%- endfor -%}
        {%- for row in starts -%}
            {%- set walk.borders = with_border(
                walk.borders, [row[0], row[1], row[2] | int], [], [[row[3] | int, row[4] | int]]
            ) -%}
        {%- endfor -%}
        {%- for row in behind -%}
            {%- set walk.borders = with_border(walk.borders, [row[0], row[1], row[2] | int], [], [[0, 0]] * (row[3] | int)) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if walk.grows -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': partition ' ~ walk.place[2] ~ ' of ' ~ walk.place[1] ~ ' shows more than a thousand borders between'
            ~ ' logs (R5), as the records of two clusters do that were landed under one label. Land those of each under its own'
            ~ ' (`--source-label NAME`), in a new lakehouse: bronze keeps what it has.'
        ) }}
    {%- endif -%}
    {{ return(walk.borders) }}
{%- endmacro %}


{#- Borders and more of them in a partition ([label, topic, partition]), in the order of partitions. -#}
{% macro with_border(borders, place, anew, starts) -%}
    {%- set more = {} -%}
    {%- for border in borders -%}
        {%- do more.update({[border.label, border.topic, border.partition] | string: border}) -%}
    {%- endfor -%}
    {%- set border = more.get(place | string, {'anew': [], 'starts': []}) -%}
    {%- do more.update({place | string: {
        'label': place[0], 'topic': place[1], 'partition': place[2],
        'anew': (border.anew + anew) | sort, 'starts': (border.starts + starts) | sort
    }}) -%}
    {{ return(more.values() | sort(attribute='label,topic,partition')) }}
{%- endmacro %}


{#- Query: a row where an offset of a partition has two records. Where there is none, no topic was made anew. -#}
{% macro doubled_offsets(filled) -%}
    select 1
    from {{ filled }}
    group by source_label, topic, `partition`, `offset`
    having max(processed_at_ms) > min(processed_at_ms)
{%- endmacro %}


{#-
  Query: partitions in which offsets have two records of one life of the topic, and when the first was written that can't be
  of that life: one up to the lowest such offset, behind those that the first of the later ones shows to be earlier. What was
  landed of the earlier life can begin at any offset.
-#}
{% macro topics_made_anew(placed) -%}
    with compared as (
        select
            *,
            min(processed_at_ms) over of_offset as earlier,
            max(processed_at_ms) over of_offset as later
        from ({{ placed }}) as placed
        window of_offset as (partition by source_label, topic, `partition`, log_number, `offset`)
    ),

    doubled as (
        select
            *,
            min(if(later > earlier, `offset`, null)) over of_log as doubled_from,
            min(if(later > earlier, later, null)) over of_log as first_later
        from compared
        window of_log as (partition by source_label, topic, `partition`, log_number)
    ),

    dated as (
        select
            *,
            max(if(later > earlier and earlier < first_later, earlier, null)) over of_log as ended
        from doubled
        window of_log as (partition by source_label, topic, `partition`, log_number)
    )

    select
        source_label, topic, `partition`,
        min(if(`offset` <= doubled_from and processed_at_ms > ended, processed_at_ms, null)) as anew
    from dated
    where doubled_from is not null
    group by source_label, topic, `partition`
    order by source_label, topic, `partition`
{%- endmacro %}


{#-
  Query: partitions that began when all that were there had met borders, and how many logs they are behind them: positions of
  the former logs say nothing of theirs. What others bring later changes nothing (G1). A log begins with its first record, and
  not before the one before it: clocks of workers differ.

  Args:
      filled: all records; of a change that was delivered before another partition has the delivery that counts
-#}
{% macro begun_behind_borders(placed, filled, borders) -%}
    with logs as (
        select
            source_label, topic, `partition`, log_number,
            max(written) over (partition by source_label, topic, `partition` order by log_number) as began
        from (
            select
                source_label, topic, `partition`, log_number,
                min_by(processed_at_ms, struct(`offset`, processed_at_ms)) as written
            from ({{ placed }}) as placed
            group by source_label, topic, `partition`, log_number
        ) as first_records
    ),

    begun as (
        select source_label, topic, `partition`, first_log, began
        from (
            select
                source_label, topic, `partition`,
                min_by(processed_at_ms, struct(log_number, `offset`, processed_at_ms)) as began
            from ({{ with_log_number(filled, borders) }}) as record
            group by source_label, topic, `partition`
        ) as first_records
        inner join (
            select source_label, topic, `partition`, min(log_number) as first_log
            from logs
            group by source_label, topic, `partition`
        ) as first_logs using (source_label, topic, `partition`)
    )

    select source_label, topic, `partition`, min(reached) - min(first_log) as logs
    from (
        select
            begun.source_label, begun.topic, begun.`partition`, begun.first_log,
            max(if(other.began < begun.began, other.log_number, null)) as reached
        from begun
        inner join logs as other
            on struct(begun.source_label, begun.topic, begun.`partition`) != struct(other.source_label, other.topic, other.`partition`)
        group by begun.source_label, begun.topic, begun.`partition`, begun.first_log, other.source_label, other.topic, other.`partition`
    ) as compared
    group by source_label, topic, `partition`
    having logs > 0
    order by source_label, topic, `partition`
{%- endmacro %}


{#-
  Query: the first new log of each partition, behind the borders that are known: life of the topic and offset. Records of one
  offset tell nothing of each other: where flattened rows don't say when they were written, they may be of two lives.
-#}
{% macro first_new_logs(placed) -%}
    with led as (
        select
            *,
            {{ is_streamed() }} as is_streamed,
            op = 'r' and min(`offset`) over (
                partition by source_label, topic, `partition`, log_number, position
            ) < `offset` as is_read_again,
            lead(`offset`) over (
                partition by source_label, topic, `partition`, log_number order by `offset`
            ) as following
        from ({{ placed }}) as placed
    ),

    behind as (
        select
            *,
            max(following) over (partition by source_label, topic, `partition`, log_number, `offset`) as next_offset
        from led
    ),

    followed as (
        select
            *,
            max(struct(position, `offset`, next_offset)) over before as highest,
            max(if(is_streamed, struct(position, `offset`, next_offset), null)) over before as streamed,
            max({{ place_of_server('position', 'server') }}) over before as highest_with_server,
            max(changed_at) over before as latest,
            max(if(is_streamed, changed_at, null)) over before as streamed_at
        from behind
        window before as (
            partition by source_label, topic, `partition`, log_number
            order by `offset` range between unbounded preceding and 1 preceding
        )
    )

    select
        source_label, topic, `partition`,
        min_by(topic_life, struct(log_number, `offset`)) as life,
        min_by(greatest(highest.next_offset, streamed.next_offset), struct(log_number, `offset`)) as start
    from followed
    where not is_read_again and not coalesce({{ is_at_end('highest.position') }}, false)
        and ({{ begins_new_log('highest.position', 'streamed.position') }})
    group by source_label, topic, `partition`
    order by source_label, topic, `partition`
{%- endmacro %}


{#-
  Condition: whether a change can't be in the log of which is given what was before it: the highest position, of all
  changes and of the streamed ones, the latest time of each as `latest` and `streamed_at`, and the highest position that tells
  its server as `highest_with_server`. Reads of documents tell nothing of it: where they have no position, theirs is of one of
  several logs (R4), and where they have one, it is their time.
-#}
{% macro begins_new_log(of_all, of_streamed) -%}
    {{ "op != 'r' and (" if config.get('meta').tidemark.documents -}}
    {{ falls_behind('coalesce(' ~ of_streamed ~ ', ' ~ of_all ~ ')') }} and changed_at > coalesce(streamed_at, latest)
    or {{ falls_behind(of_all) }} and server != highest_with_server.server
    {{- ')' if config.get('meta').tidemark.documents }}
{%- endmacro %}


{#-
  Condition: whether a change stands behind a higher position than its own, in the partition of the topic, and this says
  something: of positions with `unordered_end` every second one does where two transactions are side by side, and one that
  is the beginning of the highest tells less of the same place (a read of SQL Server's or Db2's, which tells a commit alone).
-#}
{% macro falls_behind(highest) -%}
    position < {{ highest }} and not endswith(position, {{ text_literal(unordered_end()) }})
        and not {{ goes_on_from(highest, 'position') }}
{%- endmacro %}


{#- Condition: whether a position is of the commit that another names, and says more: that of one of its changes. -#}
{% macro goes_on_from(position, of_commit) -%}
    startswith({{ position }}, concat(rtrim({{ of_commit }}), ' '))
{%- endmacro %}


{#- Condition: whether a read stands before the highest position by no more than a sign of life takes: at the log's end. -#}
{% macro is_at_end(highest) -%}
    exists(ends, place -> {{ goes_on_from(highest, 'place') }})
{%- endmacro %}


{#- Condition: whether a change has a place that was streamed. -#}
{% macro is_streamed() -%}
    op != 'r' and position is not null
{%- endmacro %}


{#- Expression: a position with its server; NULL where none is told. -#}
{% macro place_of_server(position, server) -%}
    if({{ server }} is null, null, struct({{ position }} as position, {{ server }} as server))
{%- endmacro %}


{#- Query: the counted deliveries of changes, with the logs and places that borders give them. -#}
{% macro placed_in_logs(filled, captured, scope) -%}
    with {{ delivery_steps(captured, scope, filled) }}, {{ place_steps(scope, 'deliveries') }}
    select
        source_label, topic, `partition`, `offset`, op, server, unix_millis(processed_at) as processed_at_ms, topic_life,
        log_number, changed_at,
        {{ followed_position(scope) }} as position,
        transform({{ by_connector('ends', scope.connectors) }}, place -> {{ position_across_logs('place', scope.borders) }}) as ends
    from placed
{%- endmacro %}
