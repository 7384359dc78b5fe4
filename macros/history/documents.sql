{#-
  Steps up to `filled` for documents: each described change is done to the state before it, one after the other (R7).

  What is known of a document is its image {fields: field → JSON text, is_whole, known_fields}, in one of three states:

  - whole: all of it is known;
  - partly known: it is known of the `known_fields` what they hold, or that they were removed; nothing of others;
  - looked up: that, and the others in `fields` are as a lookup found them, later than the change.

  A described change edits, in this order of preference:

  - its own `before`, with which the image is whole: the image before it may lack a change that never came;
  - the image before it, if that is whole;
  - what was looked up for it, or what the image before it has; in both the `known_fields` stay as they were told.

  Behind a change whose document can't be read (R2) no image is known: what it did was never told.

  It adds to `known_fields` the fields that it sets or removes; a nested edit of a field that nobody knows tells too little
  of it.
  A column is named as unresolved where its image is not whole and `known_fields` lack its field, looked up or not.
-#}
{% macro document_steps(table) -%}
    {%- set others = table.columns | rejectattr('name', 'in', table.key) | list -%}
runs as (

    select
        *,
        sum(if(is_state and (state.edits is null or state.before is not null or state.follows_unread), 1, 0)) over (
            partition by key, source_no order by place rows between unbounded preceding and current row
        ) as run_no
    from stays

),

imaged as (

    select
        walked.changes.*,
        walked.images as image
    from (
        select explode(arrays_zip(changes, images)) as walked
        from (
            select
                changes,
                aggregate(
                    changes,
                    named_struct(
                        'last', cast(null as {{ image_type() }}), 'images', cast(array() as array<{{ image_type() }}>)
                    ),
                    (walk, next) -> transform(
                        array({{ next_image() }}),
                        image -> named_struct('last', image, 'images', array_append(walk.images, image))
                    )[0],
                    walk -> walk.images
                ) as images
            from (
                select {{ in_order_of_place('struct(*)') }} as changes
                from runs
                group by key, source_no, run_no
            ) as lives
        ) as folded
    ) as walks

),

image_texts as (

    select
        * except (unavailable_columns, run_no),
        cast(array() as array<string>) as unavailable_columns,
        {{ document_texts('image.fields', table.columns, table.key) }} as texts
    from imaged

),

image_rows as (

    select
        *,
        {{ document_row('texts', table.columns, table.key, 'key') }} as image_row
    from image_texts

),

filled as (

    select
        * except (state, exact_values, image, texts, image_row),
        if(is_state, image_row, null) as state,
        if(is_state, {{ exact_values('texts', 'image_row', others) }}, exact_values) as exact_values,
        if(
            is_state and not image.is_whole,
            {{ columns_not_in('image.known_fields', others) }},
            cast(array() as array<string>)
        ) as unresolved_columns
    from image_rows

)
{%- endmacro %}


{% macro image_type() -%}
    struct<fields: map<string, string>, is_whole: boolean, known_fields: array<string>>
{%- endmacro %}


{#- Expression: in a log of documents, what the fold takes for a change's state, or for the one that it found. -#}
{% macro document_state(part) -%}
    {%- if part == 'after' -%}
    if(op = 'd', null, named_struct(
        'after', document.after, 'before', document.before, 'edits', document.edits, 'follows_unread', follows_unread
    ))
    {%- else -%}
    if(document.before is null, null, named_struct(
        'after', document.before, 'before', document.before, 'edits', cast(null as {{ edits_type() }}),
        'follows_unread', false
    ))
    {%- endif -%}
{%- endmacro %}


{#- Relation: a log of documents, with whether the change before one of its key could not be read, `follows_unread`. -#}
{% macro with_unread(changes_log, hazards) -%}
    (
        select
            *,
            {% if hazards.problems -%}
            coalesce(lag(problem) over (partition by key order by {{ place('log') }}) = 'document_not_read', false)
            {%- else -%}
            false
            {%- endif %} as follows_unread
        from {{ changes_log }} as log
    )
{%- endmacro %}


{#- Condition: whether two documents have the same fields with the same values. -#}
{% macro same_document(one, other) -%}
    {{ document_json(one) }} <=> {{ document_json(other) }}
{%- endmacro %}


{#- Expression in `walk` and `next`: the image behind a change. -#}
{% macro next_image() -%}
    case
        when not next.is_state then null
        when next.state.edits is null then {{ image('next.state.after', 'true', 'array()') }}
        else transform(array({{ image_edited() }}), base -> {{ image(
            'aggregate(next.state.edits, base.fields, (fields, edit) -> ' ~ edited() ~ ')',
            'base.is_whole',
            'array_union(base.known_fields, transform(filter(next.state.edits, ' ~ tells_field()
                ~ '), edit -> edit.path[0]))'
        ) }})[0]
    end
{%- endmacro %}


{% macro image(fields, is_whole, known_fields) -%}
    cast(named_struct(
        'fields', {{ fields }}, 'is_whole', {{ is_whole }}, 'known_fields', {{ known_fields }}
    ) as {{ image_type() }})
{%- endmacro %}


{#- Expression in `walk` and `next`: the image that a described change edits. -#}
{% macro image_edited() -%}
    {%- set known_fields = 'coalesce(walk.last.known_fields, cast(array() as array<string>))' -%}
    case
        when next.state.before is not null then {{ image('next.state.before', 'true', 'array()') }}
        when walk.last.is_whole then walk.last
        else {{ image(
            known_over('coalesce(next.state.after, walk.last.fields, cast(map() as map<string, string>))'),
            'false', known_fields
        ) }}
    end
{%- endmacro %}


{#- Expression: other fields, and in their place those that the last image knows. -#}
{% macro known_over(fields) -%}
    if(
        walk.last is null,
        {{ fields }},
        map_concat(
            map_filter({{ fields }}, (field, value) -> not array_contains(walk.last.known_fields, field)),
            map_filter(walk.last.fields, (field, value) -> array_contains(walk.last.known_fields, field))
        )
    )
{%- endmacro %}


{#-
  Expression in `fields`, `edit` and `base`: the fields after an edit. What a variant can't hold, being too deep or too large,
  stays text as it is.
-#}
{% macro edited() -%}
    {%- set path = "array_join(edit.path, '.')" -%}
    {%- set others = 'map_filter(fields, (field, value) -> field != name)' -%}
    {%- set json = edited_json('fields[name]', behind_name('path')) -%}
    {%- set after -%}
        case
            when edit.how = 'remove' and name = path then {{ others }}
            when edit.how = 'set' and name = path then map_concat({{ others }}, map(name, edit.value))
            when not map_contains_key(fields, name)
                and (edit.how != 'set' or not (base.is_whole or array_contains(base.known_fields, name))) then fields
            else map_concat({{ others }}, map(name, {{ bound('json', json, 'coalesce(to_json(try_parse_json(json)), json)') }}))
        end
    {%- endset -%}
    {{ bound('path', path, bound('name', name_in('fields', 'path'), after)) }}
{%- endmacro %}


{#-
  Expression: the name with which a path begins in an object: the longest that the object has, for names can have dots, else
  what stands before the first dot.
-#}
{% macro name_in(members, path) -%}
    aggregate(
        map_keys({{ members }}),
        substring_index({{ path }}, '.', 1),
        (longest, member) -> if(
            length(member) > length(longest) and startswith(concat({{ path }}, '.'), concat(member, '.')),
            member, longest
        )
    )
{%- endmacro %}


{#- Expression in `name`: what of a path stands behind it; NULL where nothing does. -#}
{% macro behind_name(path) -%}
    if({{ path }} = name, null, substr({{ path }}, length(name) + 2))
{%- endmacro %}


{#-
  Expression: JSON text with what is at a path edited, however deep. On the way down each level is cut in what stands before
  the next (`heads`), the next itself (`here`) and what stands behind it (`tails`); `path` is what is left of the way. Then
  all is joined again. What is to be removed is cut out of the level above it.
-#}
{% macro edited_json(json, path) -%}
    aggregate(
        edit.path,
        named_struct(
            'here', {{ json }}, 'heads', cast(array() as array<string>), 'tails', cast(array() as array<string>), 'path', {{ path }}
        ),
        (level, part) -> if(level.path is null, level, {{ level_below() }}),
        level -> if(
            edit.how != 'set' and level.here is null,
            {{ json }},
            concat(
                array_join(level.heads, ''),
                case edit.how
                    when 'set' then edit.value
                    when 'cut' then coalesce(
                        to_json(slice(try_variant_get(try_parse_json(level.here), '$', 'array<variant>'), 1, edit.size)),
                        level.here
                    )
                    else {{ without_member('level.here') }}
                end,
                array_join(reverse(level.tails), '')
            )
        )
    )
{%- endmacro %}


{#- Expression in `level`: a nested document without the field that is to be removed. -#}
{% macro without_member(json) -%}
    {%- set left = 'map_filter(members, (field, value) -> field != level.path)' -%}
    {{ bound('members', document_fields(json), 'if(members is null, ' ~ json ~ ', '
        ~ bound('left_over', left, document_json('left_over')) ~ ')') }}
{%- endmacro %}


{#- Expression in `level`: the level below, by index in an array and by name elsewhere; the same above what is removed. -#}
{% macro level_below() -%}
    {%- set items -%}
        if(
            startswith(level.here, '[') and level.path rlike '^[0-9]{1,7}([.]|$)',
            transform(try_variant_get(try_parse_json(level.here), '$', 'array<variant>'), item -> to_json(item)), null
        )
    {%- endset -%}
    {%- set members = 'coalesce(' ~ document_fields('level.here') ~ ', cast(map() as map<string, string>))' -%}
    {%- set name = bound('name', "substring_index(level.path, '.', 1)", below(below_index())) -%}
    {%- set by_name = bound('members', members, bound('name', name_in('members', 'level.path'), below(below_member()))) -%}
    {{ bound('items', items, 'if(items is null, ' ~ by_name ~ ', ' ~ name ~ ')') }}
{%- endmacro %}


{% macro below(level) -%}
    if(edit.how = 'remove' and name = level.path, level, {{ level }})
{%- endmacro %}


{% macro below_index() -%}
    {#- MongoDB itself puts no more elements than those before a new one. -#}
    {%- set index = 'cast(name as int)' -%}
    named_struct(
        'here', get(items, {{ index }}),
        'heads', array_append(level.heads, concat('[', array_join(transform(
            concat(slice(items, 1, {{ index }}), array_repeat('null', least({{ index }} - size(items), 1500000))), item -> concat(item, ',')
        ), ''))),
        'tails', array_append(level.tails, concat(array_join(transform(
            slice(items, {{ index }} + 2, greatest(0, size(items) - {{ index }} - 1)), item -> concat(',', item)
        ), ''), ']')),
        'path', {{ behind_name('level.path') }}
    )
{%- endmacro %}


{% macro below_member() -%}
    named_struct(
        'here', members[name],
        'heads', array_append(level.heads, concat(
            '{',
            array_join(transform(
                map_entries(map_filter(members, (field, value) -> field != name)),
                member -> concat({{ json_name('member.key') }}, ':', member.value, ',')
            ), ''),
            {{ json_name('name') }}, ':'
        )),
        'tails', array_append(level.tails, '}'),
        'path', {{ behind_name('level.path') }}
    )
{%- endmacro %}
