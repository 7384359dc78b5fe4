{#-
  The declared columns as a list of {name, type, field, sensitive, encoding, null_is_unchanged}; types as `canonical_type`
  has them.
-#}
{% macro column_specs(columns) -%}
    {%- set specs = [] -%}
    {%- set taken = {} -%}
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
        {%- elif folded(name) in taken -%}
            {{ exceptions.raise_compiler_error(
                model.name ~ ": columns: Spark takes '" ~ taken[folded(name)] ~ "' and '" ~ name ~ "' for one. Give one of"
                ~ " them another name, and say `field: '" ~ name ~ "'`."
            ) }}
        {%- endif -%}
        {%- do taken.update({folded(name): name}) -%}
        {%- do specs.append({
            'name': name, 'type': canonical_type(spec.type), 'field': spec.get('field', name),
            'sensitive': spec.get('sensitive', false), 'encoding': spec.get('encoding') or '',
            'null_is_unchanged': spec.get('null_is_unchanged', false)
        }) -%}
    {%- endfor -%}
    {{ return(specs) }}
{%- endmacro %}


{#-
  A Spark type in the one spelling that others compare with: small letters, but for the names of a struct's fields, no spaces
  that mean nothing, and of several names of one type that which `decode` knows.
-#}
{% macro canonical_type(type) -%}
    {%- set parts = [] -%}
    {#- A name is in backquotes, or has a colon or a type behind it. -#}
    {%- for part in modules.re.split('(`(?:[^`]|``)*`|[^<>,:()` ]+(?= *:| +[^ <>,:()]))', type | trim) -%}
        {%- if loop.index is odd -%}
            {%- set part = modules.re.sub('\\s*([<>,:()])\\s*', '\\1', modules.re.sub('\\s+', ' ', part | lower)) -%}
            {%- set part = modules.re.sub('\\b(var)?char[(][0-9]+[)]', 'string', part) -%}
            {%- set part = modules.re.sub('\\btimestamp_ltz\\b', 'timestamp', part) -%}
        {%- endif -%}
        {%- do parts.append(part) -%}
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
    {%- set columns = [] -%}
    {%- set seen = {} -%}
    {%- if feed and asks_bronze() -%}
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
        {%- set in_bronze = seen.get(spec.field, {}) -%}
        {%- do columns.append(dict(
            spec, encodings=in_bronze.get('encodings'), since=in_bronze.get('since'),
            is_always_there=in_bronze.get('shapes') == shapes, first_batch=in_bronze.get('first_batch')
        )) -%}
    {%- endfor -%}
    {%- set fields = declared | map(attribute='field') | list -%}
    {%- set taken = names_of_own(model.name) + folded_names(declared | map(attribute='name')) -%}
    {%- for field, in_bronze in seen.items() if field not in fields -%}
        {%- set name = field if is_name(field) and folded(field) not in taken
            else field | replace('\u0000', '') | replace('${', '{') ~ '_' ~ local_md5(field)[:8] -%}
        {%- do taken.append(folded(name)) -%}
        {%- do columns.append({
            'name': name, 'type': common_type(in_bronze.types), 'field': field, 'sensitive': true, 'encoding': '',
            'encodings': in_bronze.encodings, 'since': in_bronze.since, 'is_always_there': in_bronze.shapes == shapes,
            'first_batch': in_bronze.first_batch
        }) -%}
    {%- endfor -%}
    {{ return(columns) }}
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
    {#- Of structs that go on with each other's fields the one with the most: a comma sorts before the closing bracket. -#}
    {%- set widest = types | sort | first | default('') -%}
    {%- set are_begun = [] -%}
    {%- for type in types -%}
        {%- do are_begun.append(type == widest or widest.startswith(type[:-1] ~ ',')) -%}
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
    {%- elif widest.startswith('struct<') and false not in are_begun -%}
        {{ return(widest) }}
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
        spec -> not array_contains({{ fields }}, spec.field)
    ).name
{%- endmacro %}


{#-
  The columns that came when the log had changes already: column → the landing of the first record that carried it. The
  log's rows of earlier ones were written without knowing that they lack it.
-#}
{% macro late_columns(scope, columns, last) -%}
    {%- set late = dict(last.get('late', {})) if scope.case == 'increment' else {} -%}
    {%- set added = scope.added | map('first') | list -%}
    {%- for spec in columns if spec.name in added and scope.case == 'increment' -%}
        {%- do late.update({spec.name: (spec.first_batch or scope.after + 1) | int}) -%}
    {%- endfor -%}
    {{ return(late) }}
{%- endmacro %}


{#- Relation: a log whose rows name all columns that they lack, those too that came to be known behind them (R8). -#}
{% macro with_late_columns(changes_log, late) -%}
    {%- if not late -%}
        {{ changes_log }}
    {%- else -%}
        (
            select
                * except (absent_columns),
                array_union(absent_columns, array_compact(array(
                    {%- for name, first_batch in late.items() -%}
                    if(batch_id < {{ first_batch }}, {{ text_literal(name) }}, null){{ ', ' if not loop.last }}
                    {%- endfor -%}
                ))) as absent_columns
            from {{ changes_log }}
        )
    {%- endif -%}
{%- endmacro %}
