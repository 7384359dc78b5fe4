{#- The keys that a run folds again: those with news, and those that changes of key link with them. -#}


{#-
  Condition: whether a key has a new change, or shares a row with one that has.

  Args:
      text: the key as JSON text, where a change is met at another (`key_met`)
-#}
{% macro is_touched(key, scope, text=none) -%}
    {%- if scope.touched -%}
        exists (select 1 from {{ scope.touched }} as touched where touched.key = {{ text or key_text(key) }})
    {%- else -%}
        exists (select 1 from {{ scope.fresh }} as news where ({{ scope.news }}) and news.key <=> {{ key }})
    {%- endif -%}
{%- endmacro %}


{#- Condition: whether a key has news, and is folded from its whole log. -#}
{% macro is_folded_again(key, scope) -%}
    {{ is_refolded(key, scope.carried, text=key_met()) if scope.carried else is_touched(key, scope, key_met()) }}
{%- endmacro %}


{#-
  Hold the keys with new changes and those that a change of key links with them, on both sides and as far as links go:
  a value that was left out can come from any of them (R7). Returns the name of what is held, `key` as JSON text.

  Where a statement shifts a list (`pos = pos + 1`) each row is linked with the next. With one step along the links a round,
  a thousand rows would take a thousand rounds, in each build that meets one of them: so each round but the first walks along
  links that were shortened, and the logarithm of that is enough. Links are held once a new change is found to touch one.
-#}
{% macro touched_with_linked(scope) -%}
    {%- set moves -%}
        select distinct greatest(key, previous_key) as one, least(key, previous_key) as other
        from (
            select {{ key_text('key') }} as key, previous_key
            from {{ scope.log }} as log
            where previous_key is not null and problem is null
        ) as moved
        where key != previous_key
    {%- endset -%}
    {%- set walk = namespace(grows=true, links='(' ~ moves ~ ')', touched=stage(
        'select distinct ' ~ key_met() ~ ' as key from ' ~ scope.log ~ ' as log where ' ~ scope.news, 'touched_0'
    )) -%}
    {#- As many rounds as no number of links needs. -#}
    {%- for step in range(1, 101) if walk.grows -%}
        {%- set walk.grows = has_rows(linked_with(walk.touched, walk.links)) -%}
        {%- if walk.grows -%}
            {%- set last = [walk.touched] + ([walk.links] if step > 1 else []) -%}
            {%- set walk.links = stage(moves if step == 1 else shortened(walk.links), 'links_' ~ step) -%}
            {%- set walk.touched = stage(
                'select key from ' ~ walk.touched ~ ' union ' ~ linked_with(walk.touched, walk.links), 'touched_' ~ step
            ) -%}
            {%- for name in last -%}{%- do unstage(name) -%}{%- endfor -%}
        {%- elif step > 1 -%}
            {%- do unstage(walk.links) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if walk.grows -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': changes of key link what is new with more keys than a hundred rounds have found. Build it with'
            ~ ' --full-refresh, which reads all keys.'
        ) }}
    {%- endif -%}
    {{ return(walk.touched) }}
{%- endmacro %}


{#- Query: the keys beside touched ones that links join with them. -#}
{% macro linked_with(touched, links) -%}
    select links.other as key
    from (
        select inline(array(struct(one as key, other as other), struct(other as key, one as other))) from {{ links }} as held
    ) as links
    left semi join {{ touched }} as touched on links.key = touched.key
    left anti join {{ touched }} as known on links.other = known.key
{%- endmacro %}


{#-
  Query: links that join the same keys by fewer steps. Of the lesser keys that a key is linked with the least one takes its
  place in the links with the others, and what that one is linked with below it, if anything, then takes the place of the
  least one. So each key is still joined, by way of lesser ones, with the least that it was linked with, and through that
  with the others; and there are no more links than before, be they of one chain or all of one key.

  Args:
      links: a relation with two keys that are linked, the lesser one as `other`
-#}
{% macro shortened(links) -%}
    with least as (select one, min(other) as other from {{ links }} group by one)

    select distinct
        if(links.other = own.other, links.one, links.other) as one,
        coalesce(further.other, own.other) as other
    from {{ links }} as links
    inner join least as own on links.one = own.one
    left join least as further on own.other = further.one
{%- endmacro %}


{#-
  Query: the same of touched keys. One that any change of key names is folded from its whole log: a row that came from another
  key, or left for one, is told by more than its own open version. Apart from that keys know nothing of each other.

  Args:
      known: what `known_of_keys` gave
-#}
{% macro known_of_linked(scope, known) -%}
    with known as (

        {{ known }}

    ),

    linked as (

        select distinct explode(array({{ key_text('key') }}, previous_key)) as key
        from {{ scope.log }} as log
        where previous_key is not null and {{ is_for_histories() }} and not {{ is_pair() }}

    )

    select
        touched.key,
        coalesce(known.is_known, linked.key is not null) as is_known,
        linked.key is not null or coalesce(known.is_refolded, false) as is_refolded
    from {{ scope.touched }} as touched
    left join known on touched.key = known.key
    left join linked on touched.key = linked.key
{%- endmacro %}
