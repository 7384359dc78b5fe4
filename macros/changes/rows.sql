{#- How the image of a row is read from JSON text and typed (R6). -#}


{#- Columns whose text Spark's JSON reader would change (1.50 to 1.5) are read as variant, which keeps every digit. -#}
{% macro json_type(spec) -%}
    {{ 'variant' if spec.type.startswith('decimal') or is_array(spec.type) or has_decimals(spec) or is_nested(spec.type) else 'string' }}
{%- endmacro %}


{#-
  Whether numbers can come to a column with more digits than Spark's JSON reader keeps: a variant holds 38, and is a double
  of more, as it is of what has an exponent. Where a converter writes decimals as numbers (`decimal.format=NUMERIC`), those
  of less than 39 digits have an exponent where their scale is negative, or above 6 (`0E-8`).
-#}
{% macro has_long_numbers(spec) -%}
    {%- set is_rounded = kind_of(spec.type) == 'number' and not is_integral(spec.type) -%}
    {%- for seen in spec.encodings or [''] -%}
        {%- set encoding = effective_encoding(seen, spec) -%}
        {%- set is_short = modules.re.match('org.apache.kafka.connect.data.Decimal:[0-6]$', encoding) -%}
        {%- if is_rounded and not seen or (encoding.startswith('org.apache.kafka.connect.data.Decimal') and not is_short) -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{%- endmacro %}


{#- A regular expression: a number with more digits than that reader keeps, in text. -#}
{% macro long_number() -%}
    {{ return('-?(?=[0-9.]{39}|(?=[0-9]+[.])[0-9.]{18}|[0-9.]+[eE])[0-9][-+.0-9eE]*') }}
{%- endmacro %}


{#-
  The names of the fields that `has_long_numbers` is true of, as JSON and a regular expression spell them: JSON can spell
  letters by their numbers.
-#}
{% macro long_numbers(columns) -%}
    {%- set names = [] -%}
    {%- for spec in columns if has_long_numbers(spec) -%}
        {%- for one in spellings(spec.field) -%}{%- do names.append(modules.re.escape(one)) -%}{%- endfor -%}
    {%- endfor -%}
    {{ return(names) }}
{%- endmacro %}


{#-
  A field's name as JSON spells it: with letters beyond ASCII as they are or by their numbers, and numbers with small letters
  or with large ones. Control characters can't stand as they are.
-#}
{% macro spellings(field) -%}
    {%- set by_number = tojson(field)[1:-1] -%}
    {%- set as_they_are = [] -%}
    {%- for part in modules.re.split('(\\\\(?:u00[01][0-9a-f]|[^u]))', by_number) -%}
        {%- do as_they_are.append(part if loop.index is even else fromjson('"' ~ part ~ '"')) -%}
    {%- endfor -%}
    {%- set spelled = [as_they_are | join, by_number] -%}
    {%- for text in spelled | list -%}
        {%- set parts = [] -%}
        {%- for part in modules.re.split('(\\\\[^u]|\\\\u[0-9a-f]{4})', text) -%}
            {%- do parts.append('\\u' ~ part[2:] | upper if loop.index is even and part[1] == 'u' else part) -%}
        {%- endfor -%}
        {%- do spelled.append(parts | join) -%}
    {%- endfor -%}
    {{ return(spelled | unique(case_sensitive=true) | list) }}
{%- endmacro %}


{#-
  Expression: a row in JSON text, read as a type says. Numbers that the reader would round are read as texts, behind the mark
  of text that no type takes; `field_text` takes it off, and `field_json` the quotes, too, as those mean base64. Within a
  text of JSON each quote has a backslash before it, so what looks like such a field is one.

  A record has no such number as a rule, and looking for the fields and what is before them takes longer than reading the
  row. Whether there is one is asked first, by expressions that never go back: of a few fields for the name of each, which
  Java looks for by leaps, else for any number behind a colon.
-#}
{% macro read_row(text, ddl, columns) -%}
    {%- set names = long_numbers(columns) -%}
    {%- set field = '(?<!\\\\)("(?:' ~ names | join('|') ~ ')"\\s*:\\s*)' -%}
    {%- set number = '(' ~ long_number() ~ ')' -%}
    {%- set behind_colon = ':\\s*+-?[0-9]++(?:[eE]|(?<=[0-9]{39})|[.][0-9]*+(?:[eE]|(?<=[0-9.]{18})))' -%}
    {%- set marks = [behind_colon] if names | length > 4 else [] -%}
    {%- for name in names if names | length <= 4 -%}{%- do marks.append('"' ~ name ~ '"\\s*+' ~ behind_colon) -%}{%- endfor -%}
    {%- set long_as_text -%}
        if(
            {% for mark in marks %}{{ 'or ' if not loop.first }}{{ text }} rlike {{ text_literal(mark) }}{% endfor %},
            regexp_replace({{ text }}, {{ text_literal(field ~ number) }}, '$1"\uFFFF$2"'),
            {{ text }}
        )
    {%- endset -%}
    {{ read_json(long_as_text if names else text, ddl) }}
{%- endmacro %}


{#- Two fields that differ in case can't be fields of one struct: then the whole row is read as a map. -#}
{% macro is_case_sensitive(columns) -%}
    {%- set names = folded_names(columns | map(attribute='field')) -%}
    {{ return(names | unique(case_sensitive=true) | list | length < columns | length) }}
{%- endmacro %}


{#- The type that a row is read with: the columns, or those of `only`; a map where names differ in case alone. -#}
{% macro row_ddl(columns, only=none) -%}
    {%- if is_case_sensitive(columns) -%}
        map<string, variant>
    {%- else -%}
        struct<
        {%- for spec in columns if only is none or spec.name in only -%}
            {{ quoted(spec.field) }}: {{ json_type(spec) }}{{ ', ' if not loop.last }}
        {%- endfor -%}
        >
    {%- endif -%}
{%- endmacro %}


{#- The type that JSON of a row's fields is read with, where each has a value of one type, such as its encoding. -#}
{% macro fields_ddl(columns, type) -%}
    {%- if is_case_sensitive(columns) -%}
        map<string, {{ type }}>
    {%- else -%}
        {%- for spec in columns -%}{{ quoted(spec.field) }} {{ type }}{{ ', ' if not loop.last }}{%- endfor -%}
    {%- endif -%}
{%- endmacro %}


{#-
  In which form rows with these columns are read, as {is_map, long_numbers}: asked once, as a look at all columns for each of
  them makes a wide table's query in minutes.
-#}
{% macro row_form(columns) -%}
    {{ return({'is_map': is_case_sensitive(columns), 'long_numbers': long_numbers(columns)}) }}
{%- endmacro %}


{#- Expression: a field of a row in such a form. Where the row has two of a name, the last counts. -#}
{% macro field_of(row, spec, form) -%}
    {%- if form.is_map -%}
        try_element_at(
            filter(map_entries({{ row }}), entry -> entry.key = {{ text_literal(spec.field) }}), -1
        ).value
    {%- else -%}
        {{ row }}.{{ quoted(spec.field) }}
    {%- endif -%}
{%- endmacro %}


{#- Expression: such a field as text, with marks of long numbers as `read_row` left them. -#}
{% macro read_text(field, spec, form) -%}
    {{ 'cast(' ~ field ~ ' as string)' if form.is_map or json_type(spec) == 'variant' else field }}
{%- endmacro %}


{#- Expression: such a field as text; NULL where the row has none or null. -#}
{% macro field_text(field, spec, form) -%}
    {%- set text = read_text(field, spec, form) -%}
    {%- if has_long_numbers(spec) -%}
        ltrim('\uFFFF', {{ text }})
    {%- elif kind_of(spec.type) in ('text', none) and form.long_numbers -%}
        {#- An object within the row can have a field of the same name. The source's own text can have the letter, too. -#}
        {%- set marked = '("(?:' ~ form.long_numbers | join('|') ~ ')"\\s*:\\s*)"\\uFFFF(' ~ long_number() ~ ')"' -%}
        if(contains({{ text }}, '\uFFFF'), regexp_replace({{ text }}, {{ text_literal(marked) }}, '$1$2'), {{ text }})
    {%- else -%}
        {{ text }}
    {%- endif -%}
{%- endmacro %}


{#- Expression: the same as JSON, for a column whose decimals are read as variant. -#}
{% macro field_json(field, spec) -%}
    {%- set json = "nullif(to_json(" ~ field ~ "), 'null')" -%}
    {{ 'regexp_replace(' ~ json ~ ', \'^"\uFFFF(.*)"$\', \'$1\')' if has_long_numbers(spec) else json }}
{%- endmacro %}


{#-
  Expression: how a record encodes a column, '' where nothing tells; a literal where every record does so alike. Of records
  without a shape, which are deletes without a schema, the others tell.
-#}
{% macro encoding_of(spec, form) -%}
    {%- if has_one_encoding(spec) -%}
        {{ text_literal(spec.encodings[0]) }}
    {%- else -%}
        {%- set shapeless = shapeless_encoding(spec, spec.encodings or []) -%}
        coalesce(
            {{- 'shapes.encodings[' ~ text_literal(spec.field) ~ ']' if form.is_map
                else 'shapes.encodings.' ~ quoted(spec.field) -}}
            {{- ', if(shapes.encodings is null, ' ~ text_literal(shapeless) ~ ', null)' if shapeless }}, '')
    {%- endif -%}
{%- endmacro %}


{#- Expression: the plain text of such a field, whose record has an encoding. -#}
{% macro plain_field(field, encoding, spec, form) -%}
    {{ plain_text(field_text(field, spec, form), field_json(field, spec), encoding, spec) }}
{%- endmacro %}


{#-
  Expression: a struct of plain texts, one field a column.

  Args:
      told: row and column → the text, where `told_texts` tells it
      absent: expressions of texts that stand for none
-#}
{% macro plain_struct(row, columns, only=none, told={}, absent=[]) -%}
    {%- set form = row_form(columns) -%}
    {% call(spec) struct_by_column(columns if only is none else columns | selectattr('name', 'in', only) | list) -%}
        {%- set field = field_of(row, spec, form) -%}
        {%- set text = told.get(row ~ '.' ~ spec.name) or plain_field(field, encoding_of(spec, form), spec, form) -%}
        {%- if absent and can_be_left_out(spec) -%}
            if({{ read_text(field, spec, form) }} in ({{ absent | join(', ') }}), null, {{ text }})
        {%- else -%}
            {{ text }}
        {%- endif -%}
    {%- endcall %}
{%- endmacro %}


{#-
  Texts that are told once for all, as {lists: name → expression of a list of texts, told: row and column → item of a list}.

  An expression with lambdas, such as that of a decimal's digits, is interpreted, and takes Spark as long to plan as those
  of ten columns without. It is spelled once, for all fields of its kind in all images of the row.

  Args:
      images: expression of a row → names of the columns that are asked of it
-#}
{% macro told_texts(images, columns) -%}
    {%- set form = row_form(columns) -%}
    {%- set of_kind, fields, told = {}, {}, {} -%}
    {%- for spec in columns -%}
        {%- set kind = tojson([spec.type, spec.encodings, spec.encoding]) -%}
        {%- if kind not in of_kind -%}
            {%- do of_kind.update({kind: plain_field('one.field', 'one.encoding', spec, form)}) -%}
        {%- endif -%}
        {%- set text = of_kind[kind] -%}
        {%- for row, names in images.items() if ' -> ' in text and spec.name in names -%}
            {%- set of_text = fields.setdefault(text, []) -%}
            {%- set list = 'texts_' ~ (fields.keys() | list).index(text) -%}
            {%- do told.update({row ~ '.' ~ spec.name: list ~ '[' ~ (of_text | length) ~ ']'}) -%}
            {%- do of_text.append(
                'struct(' ~ field_of(row, spec, form) ~ ' as field, ' ~ encoding_of(spec, form) ~ ' as encoding)'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set lists = {} -%}
    {%- for text, of_text in fields.items() -%}
        {%- do lists.update({
            'texts_' ~ loop.index0: 'transform(array(' ~ of_text | join(', ') ~ '), one -> ' ~ text ~ ')'
        }) -%}
    {%- endfor -%}
    {{ return({'lists': lists, 'told': told}) }}
{%- endmacro %}


{#- Expression: such texts as values of the columns' types, NULL where a type can't hold one. -#}
{% macro typed_struct(texts, columns, only=none) -%}
    {% call(spec) struct_by_column(columns if only is none else columns | selectattr('name', 'in', only) | list) -%}
        {{ decode(texts ~ '.' ~ quoted(spec.name), spec.type) }}
    {%- endcall %}
{%- endmacro %}


{#-
  Expression: an image of the row, with NULL where a value is unavailable; NULL where there is no image.

  Args are expressions: the image's typed struct, whether it is there, and the names of its unavailable columns.
-#}
{% macro known_struct(typed, is_there, unavailable, columns) -%}
    if({{ is_there }}, if(
        size({{ unavailable }}) = 0, {{ typed }}, {% call(spec) struct_by_column(columns) -%}
            if(array_contains({{ unavailable }}, {{ text_literal(spec.name) }}), null, {{ typed }}.{{ quoted(spec.name) }})
        {%- endcall %}
    ), null)
{%- endmacro %}


{#- Expression: column → exact text of each value that its type can't hold (R6). -#}
{% macro exact_values(texts, typed, columns) -%}
    {%- set casts = columns | rejectattr('type', 'equalto', 'string') | list -%}
    {%- if not casts -%}
    cast(map() as map<string, string>)
    {%- else -%}
    if(
        {%- for spec in casts %}
        {{ 'or ' if not loop.first }}{{ is_undecoded(texts, typed, spec) }}
        {%- endfor %},
        {{ exact_texts(lossy_texts(texts, typed, casts), casts) }},
        cast(map() as map<string, string>)
    )
    {%- endif -%}
{%- endmacro %}


{#- Condition: whether a column has a plain text that its type can't hold. -#}
{% macro is_undecoded(texts, typed, spec) -%}
    {{ typed }}.{{ quoted(spec.name) }} is null and {{ texts }}.{{ quoted(spec.name) }} is not null
{%- endmacro %}


{#- Expression: column → plain text of each value that is there, known and not in its type. -#}
{% macro lossy_texts(texts, typed, columns) -%}
    map_filter(
        map(
            {%- for spec in columns %}
            {{ text_literal(spec.name) }}, if(
                {{ typed }}.{{ quoted(spec.name) }} is null
                and not array_contains(unavailable_columns, {{ text_literal(spec.name) }}),
                {{ texts }}.{{ quoted(spec.name) }},
                null
            )
            {{- ',' if not loop.last }}
            {%- endfor %}
        ),
        (name, value) -> value is not null
    )
{%- endmacro %}


{#- Steps from `envelopes` to `filled`, as `document_read_steps` has them for documents. -#}
{% macro row_read_steps(captured, scope) -%}
    {%- set columns, key = captured.columns, captured.key -%}
    {%- set shapes_differ = has_shapes(captured) -%}
    {%- set absent = [] -%}
    {%- for one in captured.placeholders -%}{%- do absent.extend(placeholder_texts(one)) -%}{%- endfor -%}
    {%- set is_whole = is_before_whole(captured.before_is_whole, scope.connectors) -%}
    {%- set links = links_of(captured) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set images = {'envelope.after': names, 'envelope.before': names, 'raw_key': key} -%}
    {%- for link in links -%}{%- do images.update({link ~ '_row': key}) -%}{%- endfor -%}
    {%- set once = told_texts(images, columns) -%}
    {%- set aside = once.lists.keys() | list -%}
    {%- for link in links -%}{%- do aside.append(link ~ '_row') -%}{%- endfor -%}
texts as (

    select
        {{ envelope_columns(captured) }},
        {%- for name, list in once.lists.items() %}
        {{ list }} as {{ name }},
        {%- endfor %}
        {{ plain_struct('envelope.after', columns, told=once.told) }} as after_text,
        {{ plain_struct('envelope.before', columns, told=once.told) }} as before_text,
        {{ plain_struct('raw_key', columns, key, once.told, absent) }} as key_text,
        {%- if key | length > 1 %}
        {{ unavailable_columns('raw_key', columns, absent, key) }} as unavailable_key,
        {%- endif %}
        record_key is null as is_unkeyed,
        {{ is_named_by_before(columns, key) }} as is_named_by_before,
        {%- for link in links %}
        {{ plain_struct(link ~ '_row', columns, key, once.told) }} as {{ link }}_texts,
        {%- endfor %}
        {{ 'coalesce(shapes.absent_columns, ' if shapes_differ }}cast(array() as array<string>){{ ')' if shapes_differ }} as absent_columns,
        {{ unavailable_with_nulls('envelope.after', 'envelope.before', columns, absent) }} as unavailable_columns,
        {{ unavailable_columns('envelope.before', columns, absent) }} as unavailable_before
    from envelopes
    {%- if shapes_differ %}
    left join shapes on envelopes.shape_id = shapes.shape_id
    {%- endif %}

),

typed as (

    select
        *{{ ' except (' ~ aside | join(', ') ~ ')' if aside }},
        {{ by_connector('position', scope.connectors) }} as place,
        {{ typed_struct('after_text', columns) }} as after_typed,
        {{ typed_struct('before_text', columns) }} as before_typed,
        {%- for link in links %}
        if({{ link }}_row is null, null, {{ linked_struct(link, columns, key) }}) as {{ link }}_typed,
        {%- endfor %}
        {{ typed_struct('key_text', columns, key) }} as key_typed
    from texts

),

filled as (

    select
        * except (is_unkeyed, is_named_by_before{{ ', unavailable_key' if key | length > 1 }}),
        {{ known_struct('after_typed', 'has_after', 'unavailable_columns', columns) }} as after,
        {{ known_struct('before_typed', 'has_before', 'unavailable_before', columns) }} as before,
        {{ exact_values('after_text', 'after_typed', columns) }} as exact_values,
        {{ key_struct(columns, key, tells_key(is_whole)) }} as key_struct,
        {%- if key %}
        coalesce({{ linked_key('previous', columns, key) }}, {{ key_before(is_whole, columns, key) }}) as previous_key,
        {{ linked_key('next', columns, key) }} as next_key,
        {%- else %}
        cast(null as string) as previous_key,
        cast(null as string) as next_key,
        {%- endif %}
        {{ is_whole }} as is_before_whole,
        if(op = 'r', null, {{ by_connector('server', scope.connectors) }}) as server,
        {{ problem(columns, key, scope.connectors, tells_key(is_whole)) }} as problem
    from typed

)
{%- endmacro %}
