{#-
  The declared columns as a list of {name, type, field, sensitive, encoding, null_is_unchanged}; types as `canonical_type`
  has them.
-#}
{% macro column_specs(columns) -%}
    {%- set specs = [] -%}
    {%- set known = {} -%}
    {%- for name, declared in columns.items() -%}
        {%- set spec = {'type': declared} if declared is string else declared -%}
        {%- if spec is not mapping -%}
            {{ exceptions.raise_compiler_error(
                model.name ~ ': columns: ' ~ name ~ ' is ' ~ tojson(spec) ~ '; it takes a type, or options: '
                ~ known_options('column') | join(', ') ~ '.'
            ) }}
        {%- endif -%}
        {%- do check_options('column', spec, 'columns: ' ~ name) -%}
        {%- set fault = type_fault(canonical_type(spec.type)) -%}
        {%- if fault -%}
            {{ exceptions.raise_compiler_error(
                model.name ~ ': columns: ' ~ name ~ ": the declared type '" ~ spec.type ~ "' " ~ fault ~ '.'
            ) }}
        {%- elif folded(name) in known -%}
            {{ exceptions.raise_compiler_error(
                model.name ~ ": columns: Spark takes '" ~ known[folded(name)] ~ "' and '" ~ name ~ "' for one. Give one of"
                ~ " them another name, and say `field: '" ~ name ~ "'`."
            ) }}
        {%- endif -%}
        {%- do known.update({folded(name): name}) -%}
        {%- do specs.append({
            'name': name, 'type': canonical_type(spec.type), 'field': spec.get('field', name),
            'sensitive': spec.get('sensitive', false), 'encoding': spec.get('encoding') or '',
            'null_is_unchanged': spec.get('null_is_unchanged', false)
        }) -%}
    {%- endfor -%}
    {{ return(specs) }}
{%- endmacro %}


{#- A Spark type in the one spelling that others compare with: small letters, but for the names of a struct's fields. -#}
{% macro canonical_type(type) -%}
    {%- set parts = [] -%}
    {#- A name is in backquotes, or has a colon or a type behind it. -#}
    {%- for part in modules.re.split('(`(?:[^`]|``)*`|[^<>,:()` ]+(?= *:| +[^ <>,:()]))', type | trim) -%}
        {%- do parts.append(part if loop.index is even else part | lower) -%}
    {%- endfor -%}
    {{ return(parts | join) }}
{%- endmacro %}


{#-
  The columns of a table: the declared ones, and behind them those that bronze has seen and no model declares, with the
  type that holds what their schemas give. Owns R8.

  Returns: [{name, type, field, sensitive, encoding, encodings, since, is_always_there, first_batch}]; `encodings` are those
  that its records came in, '' for records without a schema, `since` the first landing of each, and `first_batch` that of the
  first of them; none and false where bronze wasn't asked.
-#}
{% macro columns_of(feed, declared) -%}
    {%- set found = [] -%}
    {%- set seen = {} -%}
    {%- if execute and not flags.EMPTY and flags.WHICH in ('run', 'build', 'retry', 'compile') and feed -%}
        {%- for row in fields_seen(feed) -%}
            {%- set since = {} -%}
            {%- for one in fromjson(row[3]) | sort(attribute='batch_id', reverse=true) -%}
                {%- do since.update({one.encoding: one.batch_id}) -%}
            {%- endfor -%}
            {%- do seen.update({row[1]: {
                'types': fromjson(row[2]), 'encodings': since | sort, 'since': since, 'shapes': row[4], 'first_batch': row[5]
            }}) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- set shapes = seen.pop(none).shapes if seen else 0 -%}
    {%- for spec in declared -%}
        {%- set told = seen.get(spec.field, {}) -%}
        {%- do found.append(dict(
            spec, encodings=told.get('encodings'), since=told.get('since'), is_always_there=told.get('shapes') == shapes,
            first_batch=told.get('first_batch')
        )) -%}
    {%- endfor -%}
    {%- set fields = declared | map(attribute='field') | list -%}
    {%- set taken = names_of_own(model.name) -%}
    {%- for spec in declared -%}{%- do taken.append(folded(spec.name)) -%}{%- endfor -%}
    {%- for field, told in seen.items() if field not in fields -%}
        {%- set name = field if is_name(field) and folded(field) not in taken
            else field | replace('\u0000', '') | replace('${', '{') ~ '_' ~ local_md5(field)[:8] -%}
        {%- do taken.append(folded(name)) -%}
        {%- do found.append({
            'name': name, 'type': common_type(told.types), 'field': field, 'sensitive': true, 'encoding': '', 'encodings': told.encodings,
            'since': told.since, 'is_always_there': told.shapes == shapes, 'first_batch': told.first_batch
        }) -%}
    {%- endfor -%}
    {{ return(found) }}
{%- endmacro %}


{#-
  Whether a column can have a name. Readers other than Spark give a table with a NUL in one up. What is written to Parquet
  is described in Hadoop's configuration, which fills a name such as `${user.home}` in.
-#}
{% macro is_name(field) -%}
    {{ return(field and '\u0000' not in field and '${' not in field) }}
{%- endmacro %}


{#-
  The one type that holds all values of some: of whole numbers, decimals and moments the widest, and text where they have
  nothing in common. It depends on which types there are, and not on which came first (G1).
-#}
{% macro common_type(types) -%}
    {%- set digits = {'boolean': 1, 'tinyint': 3, 'smallint': 5, 'int': 10, 'bigint': 19} -%}
    {%- set kinds = [] -%}
    {%- set sizes = {'whole': [0], 'fraction': [0]} -%}
    {%- set items = [] -%}
    {%- for type in types -%}
        {%- do items.append(item_type(type) if is_array(type) else none) -%}
        {%- set size = modules.re.findall('[0-9]+', type) | map('int') | list if type.startswith('decimal') else [digits.get(type), 0] -%}
        {%- do kinds.append(
            'decimal' if type.startswith('decimal') else 'integral' if type in digits else 'floating' if is_floating(type) else type
        ) -%}
        {%- do sizes.whole.append((size[0] or 0) - size[1]) -%}
        {%- do sizes.fraction.append(size[1]) -%}
    {%- endfor -%}
    {%- set kinds = kinds | unique | sort -%}
    {%- set whole, fraction = sizes.whole | max, sizes.fraction | max -%}
    {%- if types | length == 1 -%}
        {{ return(types[0]) }}
    {%- elif items and none not in items -%}
        {{ return('array<' ~ common_type(items | unique | list) ~ '>') }}
    {%- elif kinds == ['integral'] -%}
        {{ return((digits | dictsort(by='value') | map('first') | select('in', types) | list)[-1]) }}
    {%- elif kinds in (['decimal'], ['decimal', 'integral']) and whole + fraction <= 38 -%}
        {{ return('decimal(' ~ (whole + fraction) ~ ',' ~ fraction ~ ')') }}
    {#- A double has every whole number of ten digits; as a decimal one number has one spelling. -#}
    {%- elif kinds == ['floating'] or (kinds == ['floating', 'integral'] and whole <= digits.int) -%}
        {{ return('double') }}
    {%- elif 'floating' in kinds and not kinds | reject('in', ['decimal', 'floating', 'integral']) | list
        and whole <= 20 and fraction <= 18 -%}
        {{ return('decimal(38,18)') }}
    {%- elif kinds == ['date', 'timestamp_ntz'] -%}
        {{ return('timestamp_ntz') }}
    {%- endif -%}
    {{ return('string') }}
{%- endmacro %}


{#- Whether records of the table differ in the columns that they carry, or in how a column is encoded. -#}
{% macro shapes_differ(columns) -%}
    {%- for spec in columns if not spec.is_always_there or not has_one_encoding(spec) -%}
        {{ return(true) }}
    {%- endfor -%}
    {{ return(false) }}
{%- endmacro %}


{#- Expression: the columns whose field a shape has not; none where nothing is known of its fields. -#}
{% macro absent_columns(fields, columns) -%}
    filter(
        array(
            {%- for spec in columns %}
            struct({{ text_literal(spec.field) }} as field, {{ text_literal(spec.name) }} as name){{ ',' if not loop.last }}
            {%- endfor %}
        ),
        told -> not array_contains({{ fields }}, told.field)
    ).name
{%- endmacro %}


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
        {%- set spelled = [spec.field | replace('\\', '\\\\') | replace('"', '\\"'), tojson(spec.field)[1:-1]] -%}
        {%- for one in spelled | unique(case_sensitive=true) -%}{%- do names.append(modules.re.escape(one)) -%}{%- endfor -%}
    {%- endfor -%}
    {{ return(names) }}
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


{#- A name as Spark compares it: letters are one that are alike in upper case (`ı` and `i`) or in lower (`İ` and `i`). -#}
{% macro folded(name) -%}
    {{ return(name | replace('\u0130', 'i') | upper | lower) }}
{%- endmacro %}


{#- Two fields that differ in case can't be fields of one struct: then the whole row is read as a map. -#}
{% macro is_case_sensitive(columns) -%}
    {%- set names = [] -%}
    {%- for spec in columns -%}{%- do names.append(folded(spec.field)) -%}{%- endfor -%}
    {{ return(names | unique(case_sensitive=true) | list | length < columns | length) }}
{%- endmacro %}


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


{% macro fields_ddl(columns, type) -%}
    {%- if is_case_sensitive(columns) -%}
        map<string, {{ type }}>
    {%- else -%}
        {%- for spec in columns -%}{{ quoted(spec.field) }} {{ type }}{{ ', ' if not loop.last }}{%- endfor -%}
    {%- endif -%}
{%- endmacro %}


{#- Expression: a field of a row, as the row was read. Where it has two of a name, the last counts. -#}
{% macro field_of(row, spec, columns) -%}
    {%- if is_case_sensitive(columns) -%}
        try_element_at(
            filter(map_entries({{ row }}), entry -> entry.key = {{ text_literal(spec.field) }}), -1
        ).value
    {%- else -%}
        {{ row }}.{{ quoted(spec.field) }}
    {%- endif -%}
{%- endmacro %}


{#- Expression: a field of a row as text, with marks of long numbers as `read_row` left them. -#}
{% macro read_text(row, spec, columns) -%}
    {%- set field = field_of(row, spec, columns) -%}
    {{ 'cast(' ~ field ~ ' as string)' if is_case_sensitive(columns) or json_type(spec) == 'variant' else field }}
{%- endmacro %}


{#- Expression: a field of a row as text; NULL where the row has none or null. -#}
{% macro field_text(row, spec, columns) -%}
    {%- set text = read_text(row, spec, columns) -%}
    {%- if has_long_numbers(spec) -%}
        ltrim('\uFFFF', {{ text }})
    {%- elif kind_of(spec.type) in ('text', none) and long_numbers(columns) -%}
        {#- An object within the row can have a field of the same name. The source's own text can have the letter, too. -#}
        {%- set marked = '("(?:' ~ long_numbers(columns) | join('|') ~ ')"\\s*:\\s*)"\\uFFFF(' ~ long_number() ~ ')"' -%}
        if(contains({{ text }}, '\uFFFF'), regexp_replace({{ text }}, {{ text_literal(marked) }}, '$1$2'), {{ text }})
    {%- else -%}
        {{ text }}
    {%- endif -%}
{%- endmacro %}


{#- Expression: the same as JSON, for a column whose decimals are read as variant. -#}
{% macro field_json(row, spec, columns) -%}
    {%- set json = "nullif(to_json(" ~ field_of(row, spec, columns) ~ "), 'null')" -%}
    {{ 'regexp_replace(' ~ json ~ ', \'^"\uFFFF(.*)"$\', \'$1\')' if has_long_numbers(spec) else json }}
{%- endmacro %}


{#-
  Expression: how a record encodes a column, '' where nothing tells; a literal where every record does so alike. Of records
  without a shape, which are deletes without a schema, the others tell.
-#}
{% macro encoding_of(spec, columns) -%}
    {%- if has_one_encoding(spec) -%}
        {{ text_literal(spec.encodings[0]) }}
    {%- else -%}
        {%- set shapeless = shapeless_encoding(spec, spec.encodings or []) -%}
        coalesce(
            {{- 'shapes.encodings[' ~ text_literal(spec.field) ~ ']' if is_case_sensitive(columns)
                else 'shapes.encodings.' ~ quoted(spec.field) -}}
            {{- ', if(shapes.encodings is null, ' ~ text_literal(shapeless) ~ ', null)' if shapeless }}, '')
    {%- endif -%}
{%- endmacro %}


{#- Expression: a struct of plain texts, one field a column. -#}
{% macro plain_struct(row, columns, only=none) -%}
    {%- if only is not none and not only -%}
        cast(null as struct<none: string>)
    {%- else -%}
    named_struct(
        {%- for spec in columns if only is none or spec.name in only %}
            {{ text_literal(spec.name) }}, {{ plain_text(
                field_text(row, spec, columns), field_json(row, spec, columns), encoding_of(spec, columns), spec
            ) }}
            {{- ',' if not loop.last }}
        {%- endfor %}
        )
    {%- endif -%}
{%- endmacro %}


{% macro typed_struct(texts, columns, only=none) -%}
    named_struct(
        {%- for spec in columns if only is none or spec.name in only %}
            {{ text_literal(spec.name) }}, {{ decode(texts ~ '.' ~ quoted(spec.name), spec.type) }}
            {{- ',' if not loop.last }}
        {%- endfor %}
        )
{%- endmacro %}


{#-
  Expression: an image of the row, with NULL where a value is unavailable; NULL where there is no image.

  Args are expressions: the image's typed struct, whether it is there, and the names of its unavailable columns.
-#}
{% macro known_struct(typed, is_there, unavailable, columns) -%}
    if({{ is_there }}, if(
        size({{ unavailable }}) = 0, {{ typed }}, named_struct(
            {%- for spec in columns %}
            {{ text_literal(spec.name) }}, if(
                array_contains({{ unavailable }}, {{ text_literal(spec.name) }}), null, {{ typed }}.{{ quoted(spec.name) }}
            )
            {{- ',' if not loop.last }}
            {%- endfor %}
        )
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


{#-
  Expression: the key, from the record's key and, where that lacks a column, from the row: from `after`, NULL included, and from
  `before` where that has it not.
-#}
{% macro key_struct(columns, key) -%}
    {%- if key -%}
    if(op = 't', null, named_struct(
        {%- for spec in columns if spec.name in key %}
            {{ text_literal(spec.name) }}, coalesce(
                key_typed.{{ quoted(spec.name) }},
                if({{ is_told_by_after(spec) }}, after_typed.{{ quoted(spec.name) }}, before_typed.{{ quoted(spec.name) }})
            )
            {{- ',' if not loop.last }}
        {%- endfor %}
        ))
    {%- else -%}
    cast(null as struct<none: string>)
    {%- endif -%}
{%- endmacro %}


{#- Condition: whether `after` has a value for a column, be it NULL. -#}
{% macro is_told_by_after(spec) -%}
    has_after and not array_contains(unavailable_columns, {{ text_literal(spec.name) }})
    {{- ' and not array_contains(absent_columns, ' ~ text_literal(spec.name) ~ ')' if not spec.is_always_there }}
{%- endmacro %}


{#-
  Condition: whether nothing tells a column of the declared key: the record's own key has other fields alone, and its row
  has none of them (R8). A column that is there and NULL is told.
-#}
{% macro is_key_untold(columns, key) -%}
    {%- set fields = columns | selectattr('name', 'in', key) | map(attribute='field') | list -%}
    op != 't'
    {%- for name in key %}
    and key_text.{{ quoted(name) }} is null
    {%- endfor %}
    and (not has_after and not has_before or size(array_except({{ text_array(key) }}, absent_columns)) = 0)
    and not coalesce(arrays_overlap({{ key_names('record_key') }}, {{ text_array(fields) }}), false)
{%- endmacro %}


{#-
  Expression: the key that `before` names, as JSON text, where it is the whole row and another key than the change's: a
  change of key written as one `u` (R14). Of a column that its rows leave out only the record's key tells; and rows tell
  no key where `after` has another than the record: connectors mask and cut columns of rows, and not those of keys.
-#}
{% macro key_before(is_whole, columns, key) -%}
    {%- set before -%}
        named_struct(
            {%- for spec in columns if spec.name in key -%}
                {{ text_literal(spec.name) }},
                {%- if spec.is_always_there %} before_typed.{{ quoted(spec.name) }}
                {%- else %} if(
                    array_contains(absent_columns, {{ text_literal(spec.name) }}),
                    key_typed.{{ quoted(spec.name) }}, before_typed.{{ quoted(spec.name) }}
                )
                {%- endif %}
                {{- ', ' if not loop.last }}
            {%- endfor -%}
        )
    {%- endset -%}
    if(
        op = 'u' and {{ is_whole }} and not {{ before }} <=> {{ key_struct(columns, key) }}
        {%- for spec in columns if spec.name in key %}
            {%- set of_record = 'key_typed.' ~ quoted(spec.name) %}
            and ({{ of_record }} is null or {{ of_record }} <=> after_typed.{{ quoted(spec.name) }}
            {{- ' or array_contains(absent_columns, ' ~ text_literal(spec.name) ~ ')' if not spec.is_always_there }})
        {%- endfor %},
        {{ key_text(before) }},
        null
    )
{%- endmacro %}
