{#-
  Steps of a changes log whose rows are documents (MongoDB): `before` and `after` are texts of JSON, and an update can tell
  what it did in place of the whole: `updateDescription`, with the fields that it set and removed and the arrays that it cut,
  each by a path with dots. Such a change is *described*; its `after`, where it has one, was looked up later, and is
  evidence of nothing that the change did. Every other state is the document as it was, and so is that `after` where the
  source's options say that it is a post-image.

  The log has `document` beside its other columns: {after, before: field → JSON text; edits: what a described change did,
  NULL for others}. In `after` a described change shows what it tells of whole fields, and names the other columns as
  unavailable (R7): macros/history/documents.sql folds them.
-#}


{#- The columns of documents: no shape says anything of them. `$` as a column's field is the whole document. -#}
{% macro document_columns(declared, key) -%}
    {%- set columns = [] -%}
    {%- for spec in declared -%}
        {%- if spec.name in key and spec.field != 'id' -%}
            {{ exceptions.raise_compiler_error(
                model.name ~ ": a document's key is `_id`, the field 'id' of its record's key; '" ~ spec.name
                ~ "' can't be of it. Declare key=['id'] with the column 'id': 'string'."
            ) }}
        {%- endif -%}
        {%- do columns.append(dict(spec, encodings=none, is_always_there=true)) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro %}


{#- The type of `updateDescription`, whose parts connectors write as lists and as JSON text. -#}
{% macro description_ddl() -%}
    struct<`removedFields`: array<string>, `updatedFields`: string, `truncatedArrays`: array<struct<field: string, size: string>>>
{%- endmacro %}


{% macro edits_type() -%}
    array<struct<path: array<string>, how: string, value: string, size: int>>
{%- endmacro %}


{#- Expression: what a description says was done, in the order in which it counts: cut, removed, set. -#}
{% macro edits(description) -%}
    cast(concat(
        transform(coalesce({{ description }}.`truncatedArrays`, array()), one -> struct(
            split(one.field, '[.]') as path, 'cut' as how, cast(null as string) as value, try_cast(one.size as int) as size
        )),
        transform(coalesce({{ description }}.`removedFields`, array()), one -> struct(
            split(one, '[.]') as path, 'remove' as how, cast(null as string) as value, cast(null as int) as size
        )),
        if({{ description }}.`updatedFields` is null, array(), transform(
            map_entries({{ document_fields(description ~ '.`updatedFields`') }}), one -> struct(
                split(one.key, '[.]') as path, 'set' as how, one.value as value, cast(null as int) as size
            )
        ))
    ) as {{ edits_type() }})
{%- endmacro %}


{#- Steps from `envelopes` to `filled`, as `read_steps` has them for rows. -#}
{% macro document_read_steps(captured, scope) -%}
    {%- set columns, key = captured.columns, captured.key -%}
    {%- set of_key = columns | selectattr('name', 'in', key) | list -%}
    {%- set others = columns | rejectattr('name', 'in', key) | list -%}
    {%- set is_whole = is_before_whole(captured.before_is_whole, scope.connectors) -%}
texts as (

    select
        {{ envelope_columns(captured) }},
        {{ own_ids(plain_struct('raw_key', of_key, key), of_key) }} as key_text,
        {{ document_fields('envelope.before') }} as before_fields,
        {{ document_fields('envelope.after') }} as after_fields,
        op = 'u' and envelope.`updateDescription` is not null{{ ' and envelope.after is null' if captured.full_updates == 'post_image' }} as is_described,
        {{ edits('envelope.`updateDescription`') }} as edits,
        cast(array() as array<string>) as absent_columns,
        cast(array() as array<string>) as unavailable_before
    from envelopes

),

described as (

    select
        *,
        {{ by_connector('position', scope.connectors) }} as place,
        {{ typed_struct('key_text', of_key, key) }} as key_typed,
        map_from_entries(transform(
            filter(edits, edit -> size(edit.path) = 1 and edit.how = 'set'), edit -> struct(edit.path[0], edit.value)
        )) as set_fields,
        transform(filter(edits, {{ tells_field() }}), edit -> edit.path[0]) as whole_fields
    from texts

),

plain as (

    select
        *,
        {{ document_texts('before_fields', columns, key) }} as before_plain,
        {{ document_texts('if(is_described, set_fields, after_fields)', columns, key) }} as after_plain,
        if(is_described, {{ columns_not_in('whole_fields', others) }}, cast(array() as array<string>)) as unavailable_columns,
        -- what tells the change from others at its place (R3); a document that was looked up is another each time
        cast(null as string) as before_text,
        case
            when op = 'd' then null
            when is_described then to_json(edits)
            else {{ document_json('after_fields') }}
        end as after_text
    from described

),

typed as (

    select
        *,
        {{ document_row('before_plain', columns, key, 'key_typed') }} as before_typed,
        {{ document_row('after_plain', columns, key, 'key_typed') }} as after_typed
    from plain

),

filled as (

    select
        *,
        cast(null as string) as previous_key,
        cast(null as string) as next_key,
        {{ known_struct('after_typed', 'is_described or has_after', 'unavailable_columns', columns) }} as after,
        {{ known_struct('before_typed', 'has_before', 'unavailable_before', columns) }} as before,
        {{ exact_values('after_plain', 'after_typed', others) }} as exact_values,
        {{ key_struct(columns, key, 'true') }} as key_struct,
        {{ is_whole }} as is_before_whole,
        if(op = 'r', null, {{ by_connector('server', scope.connectors) }}) as server,
        named_struct(
            'after', after_fields, 'before', before_fields, 'edits', if(is_described, edits, null)
        ) as document,
        coalesce(
            {{ problem(columns, key, scope.connectors, 'true', documents=true) }},
            case
                when if(is_described, edits is null, {{ is_state_op() }} and after_fields is null) then 'document_not_read'
                {%- for spec in of_key %}
                when key_typed.{{ quoted(spec.name) }} is null then 'document_without_id'
                when {{ whole_json('key_text.' ~ quoted(spec.name)) }} is null then 'key_not_decoded'
                {%- endfor %}
            end
        ) as problem
    from typed

)
{%- endmacro %}


{#-
  Expression: the plain key of a document. Debezium 1.8 to 2.4 writes that of a streamed change of a sharded collection as what
  is left of `{"region": "EU", "_id": 1}` without its first eight letters and its last one; that of a read is the id alone.
-#}
{% macro own_ids(plain_key, of_key) -%}
    {%- if not of_key -%}
    {{ plain_key }}
    {%- else -%}
        {%- set ids -%}
            {% call(spec) struct_by_column(of_key) -%}
                {%- set told = 'plain.' ~ quoted(spec.name) -%}
                {%- set behind = 'regexp_extract(' ~ told ~ ", '(?s)^.*\"_id\" *: *(.*)$', 1)" -%}
                coalesce({{ whole_json(told) }}, {{ whole_json("nullif(" ~ behind ~ ", '')") }}, {{ told }})
            {%- endcall %}
        {%- endset -%}
        {{ bound('plain', plain_key, ids) }}
    {%- endif -%}
{%- endmacro %}


{#- Lambda: whether an edit tells all of a field. -#}
{% macro tells_field() -%}
    edit -> size(edit.path) = 1 and edit.how != 'cut'
{%- endmacro %}


{#- Expression: the names of the columns whose field an array of fields lacks; of the whole document always. -#}
{% macro columns_not_in(fields, columns) -%}
    {%- if not columns -%}
    cast(array() as array<string>)
    {%- else -%}
    array_compact(array(
        {%- for spec in columns %}
        {% if spec.field == '$' -%}
        {{ text_literal(spec.name) }}
        {%- else -%}
        if(array_contains({{ fields }}, {{ text_literal(spec.field) }}), null, {{ text_literal(spec.name) }})
        {%- endif %}
        {{- ',' if not loop.last }}
        {%- endfor %}
    ))
    {%- endif -%}
{%- endmacro %}
