{#-
  What the schema-change events of a source say of its tables: a row for each table that a statement created, altered or
  dropped, in the order of the log, with the columns that it has from there on (R8, R17). A snapshot tells every table
  that it reads once more, as DROP and CREATE, without a change in the source.

  The table is made anew where events have come: what a statement changed depends on the one before it.

  Args:
      prefix: the topic prefix, as the events spell it
-#}
{% macro schema_versions(prefix) -%}
    {%- do check_options('schema_versions', dict(kwargs, prefix=prefix)) -%}
    {%- set declared = {'schema_versions_of': prefix} -%}
    {%- do config(meta={'tidemark': declared}) -%}
    {%- set scope = channel_scope(declared, is_of_channel(['schema_change'], prefix), stands_alone=false) -%}
{{ decision(scope) }}
{{ schema_versions_query(prefix) }}
{%- endmacro %}


{% macro schema_versions_query(prefix) -%}
    {%- set before -%}
        partition by db, `schema`, name order by place_in_log rows between unbounded preceding and 1 preceding
    {%- endset -%}
with

{{ statement_steps(prefix) }},

named as (

    select
        *,
        {#- Ids of rows that are stored have the name `told` in their hash. -#}
        {{ stable_id(
            "'number', number, 'told', to_json(table_change), 'ddl', ddl, 'db', db, 'schema', `schema`"
        ) }} as schema_version_id
    from renamed

),

ranked as (

    select *, place as position, {{ delivery_of('schema_version_id') }} as delivery from named

),

of_each_name as (

    select
        *,
        struct(position, topic, `partition`, `offset`, number) as place_in_log,
        -- what a renamed table was before, its old name knows
        if(name <=> `table`, columns, null) as own_columns,
        if(name <=> `table`, table_change.`table`.`primaryKeyColumnNames`, null) as own_key
    from ranked
    lateral view explode(array_distinct(array(`table`, previous_table))) exploded as name
    where delivery = 1

),

followed as (

    select
        *,
        last_value(own_columns, true) over ({{ before }}) as columns_before,
        last_value(own_key, true) over ({{ before }}) as key_before
    from of_each_name

)

select
    schema_version_id,
    db,
    `schema`,
    `table`,
    previous_table,
    table_change.`type` as kind,
    position,
    timestamp_micros({{ source_time() }}) as changed_at,
    {{ snapshot_marker() }} != 'false' as is_snapshot,
    -- what SQL Server and Db2 write in place of a statement
    nullif(ddl, 'N/A') as ddl,
    table_change.`table`.`primaryKeyColumnNames` as key,
    columns,
    coalesce(concat(
        filter(
            transform(columns, one -> named_struct(
                'name', one.name,
                'type_before', {{ column_named('columns_before', 'one.name') }}.type,
                'type', one.type
            )),
            one -> not one.type <=> one.type_before
        ),
        transform(
            filter(columns_before, one -> {{ column_named('columns', 'one.name') }} is null),
            one -> named_struct('name', one.name, 'type_before', one.type, 'type', cast(null as string))
        )
    ), array()) as changes,
    coalesce(
        not table_change.`table`.`primaryKeyColumnNames` <=> key_before
        and columns is not null and columns_before is not null, false
    ) as is_key_changed,
    topic,
    `partition`,
    `offset`,
    source_label,
    batch_id,
    landed_at
from followed
where name <=> coalesce(previous_table, `table`)
{%- endmacro %}


{#- Steps up to `renamed`: the tables that each statement tells of, named, with the columns that they have behind it. -#}
{% macro statement_steps(prefix) -%}
    {%- set table -%}
        struct<`primaryKeyColumnNames`: array<string>, columns: array<struct<
            name: string, `jdbcType`: string, `typeName`: string, `typeExpression`: string, `charsetName`: string,
            length: string, scale: string, position: string, optional: boolean, `autoIncremented`: boolean,
            generated: boolean, `defaultValueExpression`: string, `enumValues`: array<string>, comment: string
        >>>
    {%- endset -%}
    {%- set fields = dict(clock_fields(), **{
        'source': source_ddl(none, ['db', 'schema', 'table']),
        'databaseName': 'string', 'schemaName': 'string', 'ddl': 'string',
        'tableChanges': 'array<struct<`type`: string, id: string, `table`: ' ~ modules.re.sub('\\s+', ' ', table) ~ '>>'
    }) -%}
events as (

    select
        * except (parsed),
        {{ unwrapped_fields(fields) }}
    from (
        select
            source_label, topic, `partition`, `offset`, content_hash, batch_id, landed_at, connector,
            cast(null as string) as op,
            cast(null as bigint) as snapshot_lsn,
            {{ read_wrapped(fields) }} as parsed
        from {{ lakehouse_table('bronze', 'records') }}
        where {{ is_of_channel(['schema_change'], prefix) }}
    ) as records

),

placed as (

    select
        *,
        {{ by_connector('position', none) }} as place,
        {{ by_connector('identity', none) }} as identity
    from events

),

of_tables as (

    select
        *,
        -- "db"."table"; of a renamed table the name before can stand in front of it
        transform(
            regexp_extract_all(table_change.id, '"([^"]*(?:""[^"]*)*)"', 1), part -> replace(part, '""', '"')
        ) as parts
    from placed
    lateral view posexplode(`tableChanges`) exploded as number, table_change

),

described as (

    select
        *,
        -- spelled as the source block of changes spells them: Db2's has the database as configured, ids as it is called
        coalesce(nullif(source.db, ''), `databaseName`) as db,
        -- of SQL Server the source block is that of the row before: the id names the schema, twice where it has two names
        coalesce(
            if(size(parts) in (3, 6), try_element_at(parts, -2), null),
            nullif(`schemaName`, ''),
            nullif(source.`schema`, '')
        ) as `schema`,
        coalesce(try_element_at(parts, -1), source.`table`) as `table`,
        transform(table_change.`table`.columns, field -> named_struct(
            'name', field.name,
            'type', {{ spelled_type('field') }},
            'jdbc_type', try_cast(field.`jdbcType` as int),
            'length', try_cast(field.length as int),
            'scale', try_cast(field.scale as int),
            'charset', field.`charsetName`,
            'is_optional', field.optional,
            'is_auto_incremented', field.`autoIncremented`,
            'is_generated', field.generated,
            'default_value', field.`defaultValueExpression`,
            'enum_values', field.`enumValues`,
            'comment', field.comment
        )) as columns
    from of_tables

),

renamed as (

    select
        *,
        case
            when size(parts) > 2 and contains(table_change.id, '","')
                then try_element_at(parts, cast(size(parts) div 2 as int))
            when table_change.`type` = 'ALTER' then {{ by_connector('previous_table', none) }}
        end as previous_table
    from described

)
{%- endmacro %}


{#- Expression: a column's type as people write it. That of an ENUM or a SET has the values that it takes. -#}
{% macro spelled_type(column) -%}
    concat(
        coalesce({{ column }}.`typeExpression`, {{ column }}.`typeName`),
        case
            when contains(coalesce({{ column }}.`typeExpression`, {{ column }}.`typeName`), '(') then ''
            when size({{ column }}.`enumValues`) > 0 then concat('(', concat_ws(',', {{ column }}.`enumValues`), ')')
            when {{ column }}.length is null then ''
            else concat('(', concat_ws(',', {{ column }}.length, {{ column }}.scale), ')')
        end
    )
{%- endmacro %}


{#- Expression: the column of a name among columns; NULL where there is none. -#}
{% macro column_named(columns, name) -%}
    try_element_at(filter({{ columns }}, other -> other.name = {{ name }}), 1)
{%- endmacro %}
