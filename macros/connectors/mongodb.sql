{#-
  MongoDB, by change streams. The operation log has a second (`ts_ms`) and the ordinal in it (`ord`), which all operations of
  a transaction share: they tie, and their offsets order them. Each replica set has a log of its own, and a sharded
  collection's topic has several; a document is in one of them at a time, and a cluster's times agree on its way. Where the
  connector reads through the whole cluster (from 2.5 on), all have one.
  A read has no position where it tells no time (0), and from 3.4 on: it tells the last event's time in whole seconds of
  the cluster's clock, and changes then tell the primary's.

  A session (`lsid`) numbers its transactions and its retryable writes. What a write needs a transaction of the server's own
  for has a session beside it, with a UUID of its own (`txnUUID`). Transaction metadata names a transaction by both,
  joined by a colon: the session as `lsid` spells it, or as the UUID whose bytes that has in base64. END calls a collection
  `rs.db.collection`.

  What a row is here, is in macros/changes/documents.sql.
-#}
{% macro mongodb() -%}
    {%- set release = "split(regexp_extract(source.version, '^[0-9]+[.][0-9]+', 0), '[.]')" -%}
    {%- set is_of_other_clock = (
        "op = 'r' and coalesce(transform(" ~ release ~ ", part -> try_cast(part as int)) >= array(3, 4), false)"
    ) -%}
    {%- set place = [sortable_number('source.ts_ms'), sortable_number("coalesce(source.ord, '0')")] -%}
    {{ return({
        'names': ['mongodb'],
        'fields': ['version', 'rs', 'ord', 'h', 'lsid', 'txnNumber', 'tord'],
        'position': "if(source.ts_ms = '0' or " ~ is_of_other_clock ~ ", null, concat(" ~ position_of(place)
            ~ ", coalesce(concat(' ', " ~ sortable_number('source.tord') ~ "), '')))",
        'identity': 'array(source.rs, source.ts_ms, source.ord, source.h, source.lsid, source.`txnNumber`, source.tord)',
        'log': "nullif(source.rs, 'cluster')",
        'is_tied': 'true',
        'transaction': 'coalesce(concat(' ~ session_id('source.lsid') ~ ", ':', source.`txnNumber`), "
            ~ transaction_of_session('transaction.id') ~ ')',
        'boundary': transaction_of_session('boundary.id'),
        'collections': [['db', 'table'], ['replica_set', 'db', 'table']],
        'has_documents': true,
        'has_lone_changes': true
    }) }}
{%- endmacro %}


{#- Expression: what metadata name a transaction by, with the session's UUID. -#}
{% macro transaction_of_session(id) -%}
    coalesce(
        concat(
            {{ session_id("nullif(regexp_extract(" ~ id ~ ", '(?s)^(.*):[0-9]+$', 1), '')") }},
            ':',
            substring_index({{ id }}, ':', -1)
        ),
        {{ id }}
    )
{%- endmacro %}


{#- Expression: the UUID in a session's text, and behind it that of its `txnUUID`, if any; the text where it has none. -#}
{% macro session_id(lsid) -%}
    coalesce(
        concat(
            coalesce(nullif(regexp_extract({{ lsid }}, '"[$]uuid" *: *"([^"]*)"', 1), ''), {{ uuid_in(lsid, '_?id') }}),
            coalesce(concat('/', {{ uuid_in(lsid, 'txnUUID') }}), '')
        ),
        {{ lsid }}
    )
{%- endmacro %}


{#- Expression: the UUID whose bytes a field of a session's text has in base64; NULL where it has none. -#}
{% macro uuid_in(lsid, field) -%}
    {%- set base64 = '"' ~ field ~ '" *: *[{] *"[$]binary" *: *(?:[{] *"base64" *: *)?"([^"]*)"' -%}
    nullif(regexp_replace(
        lower(hex(try_to_binary(nullif(regexp_extract({{ lsid }}, '{{ base64 }}', 1), ''), 'base64'))),
        '^(.{8})(.{4})(.{4})(.{4})(.{12})$', '$1-$2-$3-$4-$5'
    ), '')
{%- endmacro %}
