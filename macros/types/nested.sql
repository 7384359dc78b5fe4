{#-
  Arrays, structs and maps: their plain text is JSON with a plain text for each element or field, and one that doesn't fit
  keeps the whole from its type.
-#}

{#- Expression: text of one JSON value, NULL of any other: Spark's readers end behind the first. -#}
{% macro whole_json(text) -%}
    if(json_array_length(concat('[', {{ text }}, ',0]')) = 2, {{ text }}, null)
{%- endmacro %}


{% macro is_array(type) -%}
    {{ return(type.startswith('array<')) }}
{%- endmacro %}


{% macro item_type(type) -%}
    {{ return(type[6:-1] | trim) }}
{%- endmacro %}


{#-
  JSON with a plain text for each element; elements that are plain as they stand are left, and so are whole numbers without
  a schema, of which no array is a BOOLEAN's.

  Args:
      declared: how elements are encoded where their schema doesn't tell
-#}
{% macro plain_array(json, encoding, type, declared='') -%}
    {%- set of_items = encoding[6:] if encoding.startswith('array:') else '' -%}
    {%- set item = 'cast(item as string)' -%}
    {%- set is_left = not declared and is_integral(type) and not of_items -%}
    {%- set plain = item if is_left
        else plain_of(item, "nullif(to_json(item), 'null')", of_items, {'type': type, 'encoding': declared}) -%}
    {%- if plain == item -%}
        {{ json }}
    {%- else -%}
        to_json(transform({{ read_json(json, 'array<variant>') }}, item -> coalesce({{ plain }}, {{ item }})))
    {%- endif -%}
{%- endmacro %}


{#- An array of which one element doesn't fit is none. -#}
{% macro decode_array(text, type) -%}
    {%- set items = read_json(text, 'array<string>') -%}
    if(
        exists({{ items }}, item -> item is not null and {{ decode('item', type) }} is null),
        null,
        transform({{ items }}, item -> {{ decode('item', type) }})
    )
{%- endmacro %}


{#- An hstore as JSON text or as a map of its own: in one order of its keys. -#}
{% macro sorted_map(text) -%}
    {%- set entries = 'map_entries(' ~ read_json(text, 'map<string,string>') ~ ')' -%}
    coalesce(to_json(map_from_entries(array_sort({{ entries }}))), {{ text }})
{%- endmacro %}


{% macro is_nested(type) -%}
    {{ return(type.startswith(('struct<', 'map<'))) }}
{%- endmacro %}


{#- What is wrong with a declared type, in words that follow it; nothing where `decode` knows it and all of its parts. -#}
{% macro type_fault(type, is_part=false) -%}
    {%- set rest = namespace(text=modules.re.sub('`(?:[^`]|``)*`', 'name', type)) -%}
    {%- for _ in range(type.count('<')) -%}
        {%- set rest.text = modules.re.sub('<[^<>]*>', '<>', modules.re.sub('<>(?!$)', '', rest.text)) -%}
    {%- endfor -%}
    {%- if rest.text in ('array<>', 'map<>', 'struct<>') -%}
        {%- set fields = fields_of_type(type) -%}
        {%- set names = folded_names(fields | map(attribute='name') | reject('none')) -%}
        {%- if names | unique | list | length < names | length -%}
            {{ return('has two fields that Spark takes for one') }}
        {%- elif is_array(type) and fields | length != 1 or type.startswith('map') and fields | length != 2 -%}
            {{ return('has not the parts that an array<…> or a map<string,…> has') }}
        {%- elif type.startswith('map') and fields[0].type != 'string' -%}
            {{ return('has keys that no JSON has: declare a map<string,…>') }}
        {%- endif -%}
        {%- for field in fields -%}
            {%- set fault = type_fault(field.type, is_part=true) -%}
            {%- if fault -%}{{ return(fault) }}{%- endif -%}
        {%- endfor -%}
        {{ return('') }}
    {%- elif type.startswith('decimal') -%}
        {%- set size = modules.re.findall('^decimal(?:[(] *([0-9]+) *(?:, *([0-9]+) *)?[)])?$', type) -%}
        {%- if size and (size[0][1] or 0) | int <= (size[0][0] or 10) | int <= 38 and (size[0][0] or 10) | int > 0 -%}
            {{ return('') }}
        {%- endif -%}
        {{ return('is no decimal(p,s) of p digits, 38 at most, of which s, p at most, are behind the point') }}
    {%- elif kind_of(type) or type == 'boolean' -%}
        {{ return('') }}
    {%- endif -%}
    {{ return(
        ("has the part '" ~ type ~ "', which " if is_part else '')
        ~ 'is none that Tidemark decodes. Declare one of string, boolean, tinyint, smallint, int, bigint, float, double,'
        ~ ' decimal(p,s), date, timestamp, timestamp_ntz, binary, array<…>, map<string,…> or struct<…>'
    ) }}
{%- endmacro %}


{#- The fields of a struct type as {name, type}; key and value of a map, and an array's element, without names. -#}
{% macro fields_of_type(type) -%}
    {%- set fields = [] -%}
    {%- set walk = namespace(depth=0, is_quoted=false, part='') -%}
    {%- for letter in type[type.index('<') + 1:-1] ~ ',' -%}
        {%- if letter == '`' -%}{%- set walk.is_quoted = not walk.is_quoted -%}{%- endif -%}
        {%- if not walk.is_quoted -%}
            {%- set walk.depth = walk.depth + {'<': 1, '(': 1, '>': -1, ')': -1}.get(letter, 0) -%}
        {%- endif -%}
        {%- if letter != ',' or walk.depth or walk.is_quoted -%}
            {%- set walk.part = walk.part ~ letter -%}
        {%- elif type.startswith('struct<') -%}
            {%- set pattern = '(?s)^(?:`((?:[^`]|``)*)`|([^:` ]+)) *:? *(.*)$' -%}
            {%- set groups = (modules.re.findall(pattern, walk.part | trim) or [['', '', '']])[0] -%}
            {%- do fields.append({'name': groups[0].replace('``', '`') or groups[1], 'type': groups[2]}) -%}
            {%- set walk.part = '' -%}
        {%- else -%}
            {%- do fields.append({'name': none, 'type': walk.part | trim}) -%}
            {%- set walk.part = '' -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(fields) }}
{%- endmacro %}


{#- Expression: the plain text of JSON that is a struct or a map; `plain` is the macro for a field's own. -#}
{% macro plain_nested(json, type, plain) -%}
    {{ bound('value', 'try_parse_json(' ~ json ~ ')', plain_members(type, plain)) }}
{%- endmacro %}


{#- Expression in `value`, a variant: the plain text of a struct or a map; `plain` is the macro for a field's own. -#}
{% macro plain_members(type, plain) -%}
    {%- set fields = fields_of_type(type) -%}
    coalesce(
        to_json(transform_values(try_variant_get(value, '$', 'map<string,variant>'), (field, value) ->
            {%- if fields[0].name is none %}
            {{ plain(fields[1].type) }}
            {%- else %}
            case field
                {%- for field in fields %}
                when {{ text_literal(field.name) }} then {{ plain(field.type) }}
                {%- endfor %}
                else cast(value as string)
            end
            {%- endif %}
        )),
        {{ marked('cast(value as string)') }}
    )
{%- endmacro %}


{#- Expression in `value`, a variant that no schema tells of: its plain text. -#}
{% macro plain_undescribed(type) -%}
    {%- set text = 'cast(value as string)' -%}
    {%- if is_nested(type) -%}
        {{ plain_members(type, plain_undescribed) }}
    {%- else -%}
        {{ never_lost(text, plain_of(text, none, '', {'type': type, 'encodings': ['']}), {'type': type}) }}
    {%- endif -%}
{%- endmacro %}


{#- The same of a value whose fields a schema describes. -#}
{% macro plain_described(type) -%}
    {%- if is_nested(type) -%}
        {{ plain_members(type, plain_described) }}
    {%- else -%}
        {{ 'cast(value as string)' if type == 'binary' else plain_undescribed(type) }}
    {%- endif -%}
{%- endmacro %}


{% macro decode_nested(text, type) -%}
    {%- set fields = fields_of_type(type) -%}
    {%- if fields[0].name is none -%}
        {%- set decoded = 'transform_values(texts, (name, item) -> ' ~ decode('item', fields[1].type) ~ ')' -%}
        {%- set lost = 'exists(map_keys(texts), name -> texts[name] is not null and decoded[name] is null)' -%}
    {%- else -%}
        {%- set parts, losses = [], [] -%}
        {%- for field in fields -%}
            {%- set item = 'texts[' ~ text_literal(field.name) ~ ']' -%}
            {%- do parts.append(text_literal(field.name) ~ ', ' ~ decode(item, field.type)) -%}
            {%- do losses.append(item ~ ' is not null and decoded.' ~ quoted(field.name) ~ ' is null') -%}
        {%- endfor -%}
        {%- set decoded = 'named_struct(' ~ parts | join(', ') ~ ')' -%}
        {%- set lost = losses | join(' or ') -%}
    {%- endif -%}
    {{ bound(
        'texts', read_json(text, 'map<string,string>'),
        'if(texts is null, null, ' ~ bound('decoded', decoded, 'if(' ~ lost ~ ', null, decoded)') ~ ')'
    ) }}
{%- endmacro %}
