{#-
  Every option, with what it takes: the one schema that checks models and `vars:`, and that docs/configuration.md is
  generated from (`make docs`). An option without a default must be given.

  Returns: scope → option → {takes, default, about, rule}; `takes` is a kind that `is_taken` knows, or a list of the
  only values.
-#}
{% macro option_schema() -%}
    {{ return({
        'changes': {
            'source_name': {'takes': 'text', 'about': 'The dbt source, named after the topic prefix.'},
            'table': {'takes': 'text', 'about': 'The table of that source; its `meta: feed` names its records in bronze.'},
            'columns': {
                'takes': 'mapping', 'rule': 'R6, R8',
                'about': 'Column → Spark type, or → the options of a column below. A column that is seen and not'
                    ~ ' declared is carried with a type that holds what its schemas give, and hidden as sensitive.',
            },
            'key': {
                'takes': 'names', 'default': none, 'rule': 'R18',
                'about': "The key's columns; a table without a key has changes and no history.",
            },
            'before_is_whole': {
                'takes': 'boolean', 'default': none, 'rule': 'R19',
                'about': 'Whether `before` holds the whole row, where this table differs from its source.',
            },
            'documents': {
                'takes': 'boolean', 'default': false, 'rule': 'R6, R7',
                'about': 'Whether its rows are documents, as MongoDB\'s are: then a column\'s `field` is a field of theirs,'
                    ~ ' `$` the whole document, and the key is the column of the field `id`.',
            },
            'source_fields': {
                'takes': 'names', 'default': [],
                'about': 'Fields of the events\' source block to keep in the log, as texts in its column `source_fields`: those'
                    ~ ' that no rule reads, such as Oracle\'s `user_name` or MySQL\'s `thread`. To find those of a version, look for'
                    ~ ' its `topic`, `partition` and `offset` in the log. `query` and `redo_sql` are refused, since they can hold'
                    ~ ' values of sensitive columns.',
            },
            'sorted_records': {
                'takes': 'number', 'default': 100000,
                'about': 'Up to this many records, a build of a table with a key sorts all of them, to find those that repeat'
                    ~ ' others and the order. With more it first asks whether it has to.',
            },
        },
        'column': {
            'type': {'takes': 'text', 'rule': 'R6', 'about': 'The Spark type.'},
            'field': {
                'takes': 'name', 'default': none,
                'about': "The column's name in the events, where it differs.",
            },
            'encoding': {
                'takes': 'encoding', 'default': none, 'rule': 'R6',
                'about': 'How records encode its values, where neither their schema nor the value tells:'
                    ~ ' a semantic type such as `io.debezium.time.MicroTimestamp`,'
                    ~ ' `org.apache.kafka.connect.data.Decimal:2` for base64 with two decimal places, `hex`,'
                    ~ ' `bigint unsigned` or `int unsigned`; of an array, how its elements are.',
            },
            'null_is_unchanged': {
                'takes': 'boolean', 'default': false, 'rule': 'R7',
                'about': 'Whether NULL in an update means that the value is unchanged, where `before` has none either.'
                    ~ ' PostgreSQL\'s connector (to 3.6.1 at least) has no placeholder for large values of some types: vectors,'
                    ~ ' `geometry` and `geography`, `bytea` in the base64 modes of `binary.handling.mode`, `varbit`, exact'
                    ~ ' numbers of thousands of digits, and arrays but for those of `text`, `bytea`, `integer`,'
                    ~ ' `bigint`, `date`, `json` and `uuid`. Without REPLICA IDENTITY FULL a real update to NULL looks the same,'
                    ~ ' and is then taken for no change. `scaffold` declares it of vectors, and names the other columns. Has no'
                    ~ ' effect on documents and outbox events.',
            },
            'sensitive': {
                'takes': 'boolean', 'default': false,
                'about': 'Show values as hashes in reports, quarantine, logs and messages; with a field of documents those of'
                    ~ ' the whole documents as well.',
            },
        },
        'history': {
            'changes': {'takes': 'text', 'about': 'The changes model, which declares key and columns.'},
            'granularity': {
                'takes': ['transaction', 'event'], 'default': 'transaction', 'rule': 'R11',
                'about': "Whether a transaction's last state of a key is the version, or every change is one.",
            },
            'track': {
                'takes': 'names', 'default': none, 'rule': 'R12',
                'about': 'The columns whose change makes a version; all where not said.',
            },
            'ignore': {
                'takes': 'names', 'default': none, 'rule': 'R12',
                'about': 'Columns whose change makes none; the open version takes their newest value.',
            },
            'snapshot_deletes': {
                'takes': ['report', 'close', 'ignore'], 'default': 'report', 'rule': 'R16',
                'about': 'What becomes of living rows that a complete later snapshot lacks. Say `ignore` where snapshots'
                    ~ ' of the table are filtered (`snapshot.select.statement.overrides`, or conditions of a signal for a'
                    ~ ' blocking one): they prove nothing, and no event tells that they are. Of documents (MongoDB) it is always'
                    ~ ' `ignore`.',
            },
            'reselected': {
                'takes': 'names', 'default': [], 'rule': 'R7',
                'about': 'The columns that the connector\'s `post.processors` read again (reselect). Such a value can be later'
                    ~ ' than its change, and no event shows whether it is. So it is kept, and its column is named in'
                    ~ ' `unresolved_columns`.',
            },
            'column_names': {
                'takes': 'renaming', 'default': {},
                'about': "Tidemark's own column → another name for it, where the source has a column of that name.",
            },
            'rewritten_rows': {
                'takes': 'number', 'default': 500000,
                'about': 'Up to this many living rows, a run that changes some of them writes all of them again, which is faster'
                    ~ ' than a MERGE. With more it only marks those that changed (deletion vectors): the cost follows the change,'
                    ~ ' and readers have to support such marks.',
            },
            'sorted_changes': {
                'takes': 'number', 'default': 100000,
                'about': 'Up to this many changes, a build that reads the whole log sorts all of them by their keys. With more it'
                    ~ ' sorts only those of keys that have more than one.',
            },
        },
        'current': {
            'history': {'takes': 'text', 'about': 'The history model, whose open versions it shows.'},
        },
        'accounting': {
            'history': {'takes': 'text', 'about': 'The history model, whose changes it accounts for.'},
        },
        'outbox': {
            'topics': {'takes': 'names', 'about': 'The topics of the events.'},
            'columns': {
                'takes': 'mapping', 'default': {}, 'rule': 'R6',
                'about': 'Field of the payload → Spark type, or → the options of a column above.',
            },
        },
        'messages': {
            'prefix': {'takes': 'text', 'about': 'The topic prefix, as the events spell it.'},
            'encoding': {
                'takes': 'encoding', 'default': none, 'rule': 'R6',
                'about': 'How the connector writes content, where `binary.handling.mode` is not `bytes` or `base64`.',
            },
        },
        'schema_versions': {
            'prefix': {'takes': 'text', 'about': 'The topic prefix, as the events spell it.'},
        },
        'snapshots': {
            'prefix': {'takes': 'text', 'about': 'The topic prefix, as the notifications and signals spell it.'},
        },
        'transactions': {
            'source_name': {'takes': 'text', 'about': 'The dbt source.'},
            'changes': {'takes': 'names', 'rule': 'G7', 'about': 'All changes models of the source.'},
        },
        'source': {
            'connector': {
                'takes': 'connector', 'default': none, 'rule': 'R4',
                'about': 'The connector whose rules hold where the events name one that Tidemark doesn\'t know; their'
                    ~ ' changes stay in the quarantine otherwise.',
            },
            'placeholder': {
                'takes': 'placeholder', 'default': '__debezium_unavailable_value', 'rule': 'R7',
                'about': 'The connector\'s `unavailable.value.placeholder`: the text that stands for an unchanged value. The default'
                    ~ ' always counts as well, since a log can hold it from before another was set.',
            },
            'before_is_whole': {
                'takes': 'boolean', 'default': none, 'rule': 'R19',
                'about': 'Whether `before` holds the whole row; where not said, the connector decides. Say true only for PostgreSQL'
                    ~ ' with REPLICA IDENTITY FULL on the tables, since DEFAULT invents columns, and for Oracle with'
                    ~ ' supplemental logging of all columns; and only where that was so for all that the log has.',
            },
            'full_updates': {
                'takes': ['lookup', 'post_image'], 'default': 'lookup', 'rule': 'R7',
                'about': 'MongoDB\'s `capture.mode.full.update.type`. With `lookup` the `after` of an update was read later than'
                    ~ ' the update, so the update counts as the edits that it describes. With `post_image` `after` is the'
                    ~ ' document as the update left it.',
            },
            'new_logs': {
                'takes': 'places', 'default': [], 'rule': 'R5',
                'about': 'Offsets at which another log of the source begins, where neither positions nor times show it;'
                    ~ ' `label` is the source label of their landing, where that is not `default`.',
            },
            'consistent': {
                'takes': 'boolean', 'default': false, 'rule': 'G7',
                'about': 'Build histories up to the last position at which every table has all of every transaction.'
                    ~ ' Needs transaction metadata, and all captured tables of the source modelled.',
            },
            'transaction_topic': {
                'takes': 'text', 'default': none, 'rule': 'G7',
                'about': 'The topic of BEGIN and END, where it is not `<topic prefix>.transaction`.',
            },
            'snapshot_notifications': {
                'takes': 'boolean', 'default': false, 'rule': 'R16',
                'about': 'Whether a snapshot\'s reads of a table also count as complete where a notification in'
                    ~ ' `<source>_snapshots` says that the scan of the table has ended and all its rows are here.',
            },
            'silent_after_minutes': {
                'takes': 'number', 'default': none, 'rule': 'R17',
                'about': 'After how many minutes without a heartbeat or a change the report calls the connector dead;'
                    ~ ' never where not said.',
            },
            'given_up': {
                'takes': 'names', 'default': [], 'rule': 'G7',
                'about': 'Ids of transactions whose missing changes will never come; they no longer hold others back.',
            },
        },
    }) }}
{%- endmacro %}


{#- The names of a scope's options. -#}
{% macro known_options(scope) -%}
    {{ return(option_schema()[scope].keys() | list) }}
{%- endmacro %}


{#- Stop where an option is unknown to its scope, missing, or has a value that it doesn't take. -#}
{% macro check_options(scope, options, what=none) -%}
    {%- set what = what or scope -%}
    {%- do only_known_options(what, options, known_options(scope)) -%}
    {%- for name, option in option_schema()[scope].items() -%}
        {%- if options.get(name) is undefined or (name not in options and 'default' not in option) -%}
            {{ exceptions.raise_compiler_error(
                model.name ~ ': ' ~ what ~ " needs '" ~ name ~ "': " ~ takes_in_words(option.takes) ~ '. ' ~ option.about
            ) }}
        {%- elif name in options and options[name] != option.get('default')
            and not is_taken(option.takes, options[name]) -%}
            {{ exceptions.raise_compiler_error(
                model.name ~ ': ' ~ what ~ ': ' ~ name ~ ' is ' ~ tojson(options[name]) ~ '; it takes '
                ~ takes_in_words(option.takes) ~ '.'
            ) }}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}


{#-
  What dbt_project.yml says of a source under `vars: tidemark: sources:`, with defaults for what it doesn't say. All
  sources there are checked, so that a misspelled name is found by the first model that is read.
-#}
{% macro source_options(source_name) -%}
    {%- set what = 'vars: tidemark: sources' -%}
    {%- set sources = declared_sources() -%}
    {%- if execute -%}
        {%- set source_names = graph.sources.values() | map(attribute='source_name') | unique | list -%}
        {%- for name in sources if name not in source_names -%}
            {{ exceptions.raise_compiler_error(
                what ~ ": there is no source '" ~ name ~ "'. Did you mean '" ~ nearest_name(name, source_names) ~ "'? Known: "
                ~ source_names | join(', ') ~ '.'
            ) }}
        {%- endfor -%}
    {%- endif -%}
    {%- for name, declared_options in sources.items() -%}
        {%- if declared_options is not mapping -%}
            {{ exceptions.raise_compiler_error(
                what ~ ': ' ~ name ~ ' is ' ~ tojson(declared_options) ~ '; it takes options: '
                ~ known_options('source') | join(', ') ~ '.'
            ) }}
        {%- endif -%}
        {%- do check_options('source', declared_options, what ~ ': ' ~ name) -%}
    {%- endfor -%}
    {%- set options = {} -%}
    {%- for name, option in option_schema()['source'].items() -%}
        {%- do options.update({name: (sources.get(source_name) or {}).get(name, option.default)}) -%}
    {%- endfor -%}
    {{ return(options) }}
{%- endmacro %}


{#- What dbt_project.yml says there: source → its options. dbt reads variables below the name of the project that it is. -#}
{% macro declared_sources() -%}
    {%- set elsewhere = var('tidemark', none) -%}
    {%- if elsewhere is mapping and elsewhere.sources
        and (project_name != 'tidemark' or 'tidemark' in (invocation_args_dict.vars or {})) -%}
        {{ exceptions.raise_compiler_error(
            'vars: tidemark: sources is not read: '
            ~ ("dbt reads variables under the project's name, " ~ project_name ~ '. Rename the key `tidemark` to '
                ~ project_name ~ '.' if project_name != 'tidemark' else "--vars takes it as '{sources: …}'.")
        ) }}
    {%- endif -%}
    {%- do only_sources_have_their_options() -%}
    {%- set sources = var('sources', none) or {} -%}
    {%- if sources is not mapping -%}
        {{ exceptions.raise_compiler_error(
            'vars: tidemark: sources is ' ~ tojson(sources) ~ '; it takes a mapping, of the name of each source to its options.'
        ) }}
    {%- endif -%}
    {%- for name in sources if name is not string -%}
        {{ exceptions.raise_compiler_error(
            'vars: tidemark: sources: YAML reads the name of a source there as ' ~ name ~ ', which is no text. Write it in'
            ~ ' quotation marks.'
        ) }}
    {%- endfor -%}
    {{ return(sources) }}
{%- endmacro %}


{#-
  The source of a changes model, where it is declared with an option; none otherwise. Known by the model's name, which begins
  with its source's: while dbt parses there is nothing else to know it by. Where the graph is there, a model that is of
  another source stops the build, if either has the option.
-#}
{% macro source_with(changes, option) -%}
    {%- set named = source_named_in(changes) -%}
    {%- set has_option = named and declared_sources()[named].get(option) -%}
    {%- if execute and graph.nodes -%}
        {%- set table = model_node(changes).config.meta.tidemark.source -%}
        {%- set its_source = table.split('.', 1)[0] -%}
        {%- if not table.startswith(named ~ '.') and (has_option or source_options(its_source)[option]) -%}
            {{ exceptions.raise_compiler_error(
                model.name ~ ': ' ~ changes ~ " is of the source '" ~ its_source ~ "', and by its name of "
                ~ (("'" ~ named ~ "'") if named else 'none') ~ '. Where a source is declared `' ~ option ~ '`, its changes models'
                ~ ' are named <source>__<table>_changes; and where its name is the beginning of another\'s, that one stands under'
                ~ ' vars: tidemark: sources as well: `' ~ its_source ~ ': {}`.'
            ) }}
        {%- endif -%}
    {%- endif -%}
    {{ return(named if has_option else none) }}
{%- endmacro %}


{#- Of the sources that have options the one that the name of a changes model begins with: the longest. -#}
{% macro source_named_in(changes) -%}
    {%- set named = namespace(source='') -%}
    {%- for name, options in declared_sources().items()
        if options is mapping and changes.startswith(name ~ '__') and name | length > named.source | length -%}
        {%- set named.source = name -%}
    {%- endfor -%}
    {{ return(named.source or none) }}
{%- endmacro %}


{#- Stop where another variable of this project has options of sources: it is `sources`, misspelled, and nobody reads it. -#}
{% macro only_sources_have_their_options() -%}
    {%- set of_project = adapter.config.vars.to_dict() -%}
    {%- set option_names = known_options('source') -%}
    {%- for where, variables in [
        ('vars: ' ~ project_name ~ ': ', of_project.get(project_name)), ('vars: ', of_project), ('--vars: ', adapter.config.cli_vars)
    ] if variables is mapping -%}
        {%- for name, value in variables.items() if name != 'sources' and value is mapping -%}
            {%- for options in value.values()
                if options is mapping and options and options | reject('in', option_names) | list == [] -%}
                {{ exceptions.raise_compiler_error(
                    where ~ name ~ ' has options of sources (' ~ options | join(', ') ~ '), and nobody reads it. Did you mean'
                    ~ " 'sources'?"
                ) }}
            {%- endfor -%}
        {%- endfor -%}
    {%- endfor -%}
{%- endmacro %}


{#- Stop with the nearest known name where an option is not one of those known. -#}
{% macro only_known_options(what, options, option_names) -%}
    {%- for name in options if name not in option_names -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': ' ~ what ~ " has no option '" ~ name ~ "'. Did you mean '" ~ nearest_name(name, option_names)
            ~ "'? Known: " ~ option_names | join(', ') ~ '.'
        ) }}
    {%- endfor -%}
{%- endmacro %}


{#- Stop where an option names a column that the table has not; only a build knows those that no model declares. -#}
{% macro check_columns(option, names, columns) -%}
    {%- for name in names if is_building() and name not in columns -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': ' ~ option ~ " names '" ~ name ~ "', and the table has no such column. Did you mean '"
            ~ nearest_name(name, columns) ~ "'? It has: " ~ columns | join(', ') ~ '.'
        ) }}
    {%- endfor -%}
{%- endmacro %}


{#- The known name that shares the most pairs of letters with a name. -#}
{% macro nearest_name(name, candidates) -%}
    {%- set scores = [] -%}
    {%- for candidate in candidates -%}
        {%- set shared = namespace(count=0) -%}
        {%- for i in range(name | length - 1) if name[i:i + 2] | lower in candidate | lower -%}
            {%- set shared.count = shared.count + 1 -%}
        {%- endfor -%}
        {%- do scores.append([shared.count, candidate]) -%}
    {%- endfor -%}
    {{ return((scores | sort | last)[1] if scores else '') }}
{%- endmacro %}


{#- Whether an option takes a value: `takes` is a kind, or the list of its only values. -#}
{% macro is_taken(takes, value) -%}
    {%- if takes is not string -%}
        {{ return(value in takes) }}
    {%- elif takes == 'names' -%}
        {{ return(value is iterable and value is not string and value is not mapping
            and value | reject('string') | list | length == 0) }}
    {%- elif takes == 'mapping' -%}
        {{ return(value is mapping) }}
    {%- elif takes == 'renaming' -%}
        {{ return(value is mapping and value.values() | reject('string') | list == []) }}
    {%- elif takes == 'places' -%}
        {%- for place in (value if value is sequence and value is not string and value is not mapping else [none])
            if place is not mapping or place | reject('equalto', 'label') | sort != ['offset', 'partition', 'topic']
            or place.get('label', '') is not string or place.topic is not string or place.partition is not integer or place.offset is not integer -%}
            {{ return(false) }}
        {%- endfor -%}
        {{ return(true) }}
    {%- elif takes == 'boolean' -%}
        {{ return(value is boolean) }}
    {%- elif takes == 'number' -%}
        {{ return(value is number and value is not boolean and value > 0) }}
    {%- elif takes == 'connector' -%}
        {{ return(value in connector_names()) }}
    {%- elif takes == 'name' -%}
        {{ return(value is string) }}
    {%- elif takes == 'placeholder' -%}
        {{ return(value is string and modules.re.match('(?!hex:).|hex:([0-9a-fA-F]{2})+$', value) is not none) }}
    {%- elif takes == 'encoding' -%}
        {{ return(value is string and modules.re.sub('Decimal:-?[0-9]+$', 'Decimal:<scale>', value) in declarable_encodings()) }}
    {%- endif -%}
    {{ return(value is string and value != '') }}
{%- endmacro %}


{#- What an option takes, in words: a kind, or its only values. -#}
{% macro takes_in_words(takes) -%}
    {{ return(takes | join(' or ') if takes is not string else {
        'text': 'a text', 'name': 'a name', 'names': 'a list of names', 'mapping': 'a mapping',
        'renaming': 'a mapping of names to names', 'boolean': 'true or false', 'number': 'a number above 0',
        'placeholder': 'a text, or hex: and two digits for each byte', 'connector': connector_names() | join(' or '),
        'places': 'a list of {topic, partition, offset}, each with a label or without',
        'encoding': declarable_encodings() | join(' or ')
    }[takes]) }}
{%- endmacro %}
