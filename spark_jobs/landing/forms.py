"""The forms in which an envelope can come, and how each is brought back into it: Avro, CloudEvents, flattened rows.

A record is recognised by itself: a topic can change its form in the middle. What arrived stays as it came (R1); beside
it stands the plain form, JSON without a schema, as a connector with JsonConverter would have written it.
"""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.landing.avro import decoded, has_magic, inside, names_in_their_case, wire_format
from spark_jobs.landing.record_files import OF_LINES
from spark_jobs.landing.registry import LONG, Registries
from spark_jobs.names import literal_map, text_array
from spark_jobs.record import HEADERS, JSON_LIMITS, object_of_key, text_of

OUTBOX_TOPIC = "outbox.event."

# The fields of the source block that CloudEvents and flattened rows bring.
_BLOCK = (
    "version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "db", "schema", "table", "collection",
    "sequence", "txId", "lsn", "xmin", "server_id", "gtid", "file", "pos", "row", "thread", "scn", "commit_scn",
    "rs_id", "ssn", "lcr_position", "txSeq", "redo_thread", "user_name", "commit_lsn", "change_lsn",
    "event_serial_no", "rs", "ord", "h", "lsid", "txnNumber", "tord", "stxnid", "wallTime", "origin", "origin_lsn",
    "row_id", "commit_ts_ms", "start_scn", "start_ts_ms", "begin_lsn",
)  # fmt: skip
# Texts of statements, which can hold what columns hide: they stay in bronze.
_STATEMENTS = ("query", "redo_sql")
_EVENT = "iodebezium"
# Records of Apicurio's converter to JSON.
_WITH_ID = r'(?s)^\s*\{\s*"schemaId"\s*:\s*([0-9]{1,18})\s*,\s*"payload"\s*:\s*(.*)\}\s*$'
# How often a name may stand in a text, in other places than its field's, before that is looked for no more.
_MOST_PLACES = 100

# What a flattened row has to say of its source (R4, R5, R10), by connector; any of the fields may be NULL.
_OF_ENVELOPE = ("op", "ts_ms")  # unqualified, the envelope's own
_NEEDED = ("op", "connector", "name", "db", "table", "ts_ms")
_PLACE_FIELDS = {
    "postgresql": ("schema", "lsn"),
    "mysql": ("file", "pos", "row"),
    "mariadb": ("file", "pos", "row"),
    "oracle": ("schema", "scn", "commit_scn", "rs_id", "ssn"),
    "sqlserver": ("schema", "commit_lsn", "change_lsn", "event_serial_no"),
    "db2": ("schema", "commit_lsn", "change_lsn"),
}
_ALL_NEEDED = tuple(dict.fromkeys([*_NEEDED, *(name for names in _PLACE_FIELDS.values() for name in names)]))
_TIME_FIELDS = ("ts_ms", "ts_us", "ts_ns")
_LACKS = "a flattened row that lacks "
_REMEDY = (
    ": have ExtractNewRecordState add them (add.fields=op,source.ts_ms and so on, or add.headers where deletes stay"
    " tombstones; delete.tombstone.handling.mode=rewrite gives __deleted); if it is a document, take"
    " ExtractNewDocumentState out of the connector"
)
# What ExtractNewRecordState adds to a row under its own prefix: fields of the envelope, its source and transaction.
_BESIDE = ("op", "deleted", "transaction_id", "transaction_total_order", "id", "total_order",
           "data_collection_order", "transaction_data_collection_order")  # fmt: skip
_OF_SOURCE = (*_BLOCK, *_STATEMENTS)
_METADATA = tuple(f"__{name}" for name in (*_BESIDE, *_OF_SOURCE, *(f"source_{name}" for name in _OF_SOURCE)))
# Where it was asked for all that is needed by qualified names, these are columns of the table's own: what is needed it
# adds once, and of the others nobody here needs any.
_OWN = ("id", "total_order", "data_collection_order", "version", "thread", "user_name", "collection", "origin",
        "row_id")  # fmt: skip
_OWN_IF_QUALIFIED = tuple(f"__{name}" for name in (*_OWN, *_ALL_NEEDED) if name not in _OF_ENVELOPE)
# One of these shows that the transform was there at all.
_SIGNS = (
    "op",
    "deleted",
    "source_ts_ms",
    "table",
    "source_table",
    "lsn",
    "source_lsn",
    "connector",
    "source_connector",
    "rs",
    "source_rs",
    "collection",
    "source_collection",
)

# In headers `__op` alone tells nothing: the transform adds it to true tombstones, too.
_MORE_SIGNS = tuple(f"__{name}" for name in _SIGNS if name != "op")
_DOUBTFUL = ("not-unicode", "value-not-json", "key-not-json", "no-envelope", "schema-without-payload")


def is_suspect(reason: Column, kind: Column) -> Column:
    """Whether a record that was read as JSON may be of another form, or be something else than it seems."""
    value = F.col("value")
    # Apicurio's converter to JSON writes the id of a schema in the schema's place.
    has_id = F.contains(F.substring(value, 1, 40), F.lit(b'"schemaId"'))
    tells_op = F.contains(value, F.lit(b'"__op"')) | _has_header("__op")
    is_odd = (
        # Cheap for what most records are: JSON with a key in JSON, or this would have a reason.
        # A flattened row with a column `ddl` seems to be a change of schema.
        F.when(reason.isNotNull(), reason.isin(*_DOUBTFUL) | ((reason == "no-source") & tells_op))
        .when(kind.isin("change", "truncate", "message"), has_id)
        .when(kind == "tombstone", has_magic(F.col("key")) | _has_header("__op"))
        .otherwise(has_magic(F.col("key")) | has_id | tells_op)
    )
    is_line = F.coalesce(reason.isin(*OF_LINES), F.lit(False))
    return F.coalesce(is_odd | _is_outbox(), F.lit(False)) & F.col("topic").isNotNull() & ~is_line


def in_plain_form(spark: SparkSession, rows: DataFrame, registries: Registries) -> DataFrame:
    """Bring records of any form into the envelope.

    Args:
        spark: The session.
        rows: `topic`, `key`, `value`, `headers` and any other columns, cut off from their lineage.
        registries: Where to ask for schemas.

    Returns:
        The same rows with `plain_key` and `plain_value` (JSON text; NULL where the bytes are plain themselves),
        `plain_schema` (Connect's, or a JSON list of names), `is_outbox`, and `reason` and `detail` where a form was
        recognised and can't be read.
    """
    columns = rows.columns
    wire_formats = {
        "key": wire_format(F.col("key"), F.col("headers"), "key"),
        "value": _with_id_in_json(wire_format(F.col("value"), F.col("headers"), "value")),
    }
    # Cut off after each step: what stands on expressions of the step before would repeat them, and theirs in them.
    with names_in_their_case(spark):
        rows = _unwrapped(decoded(spark, rows, wire_formats, registries)).localCheckpoint()
    rows = _with_flattened(rows)
    with names_in_their_case(spark):
        rows = _with_events(spark, rows, registries)
    return rows.select(
        *columns,
        F.col("key_json").alias("plain_key"),
        F.when(F.col("form") == "event", F.col("event_text"))
        .when(F.col("form") == "flattened", F.col("flat_text"))
        .when((F.col("form") == "outbox") & F.col("is_event"), F.coalesce("event_data", F.lit("null")))
        .when((F.col("form") == "outbox") & F.col("is_unwrapped"), F.coalesce("payload", F.lit("null")))
        .otherwise(F.when(F.col("value_schema").isNotNull(), F.col("payload")))
        .alias("plain_value"),
        F.when(F.col("is_event"), F.col("event_schema"))
        .when(F.col("form") == "flattened", F.col("flat_schema"))
        .otherwise(F.col("value_schema"))
        .alias("plain_schema"),
        (F.col("form") == "outbox").alias("is_outbox"),
        F.coalesce("value_code", "payload_code", "event_code", "flat_code", "key_code").alias("reason"),
        F.when(F.col("flat_code") == "flattened-without-fields", F.col("flat_missing")).alias("detail"),
    )  # fmt: skip


def _unwrapped(rows: DataFrame) -> DataFrame:
    """Add `payload`, the JSON text of the value without a schema around it, what is known of it, and `form`.

    What is known: `payload_schema`, `is_unwrapped` (whether a schema stood around it), `is_event` (whether a
    CloudEvent's attributes do) and `payload_code` (of R2).
    """
    rows = rows.withColumn("text", F.coalesce("value_json", text_of(F.col("value"))))
    rows = rows.withColumn("parts", F.when(F.col("value_json").isNull(), _parts_of(F.col("text"))))
    rows = rows.withColumn("payload", F.when(F.col("parts").isNull(), F.col("text")).otherwise(F.col("parts.payload")))
    keys = F.json_object_keys("payload")
    has_sign = F.coalesce(F.arrays_overlap(keys, text_array([f"__{name}" for name in _SIGNS])), F.lit(False))
    # A table can have a column `op`.
    source = F.from_json("payload", "source struct<connector: string>", JSON_LIMITS)["source"]["connector"]
    is_envelope = F.array_contains(keys, "op") & source.isNotNull()
    # What is left of a delete beside its headers: no value, or, as its schema stays, JsonConverter's null.
    is_empty = F.coalesce(F.trim("payload") == "null", F.lit(True))
    # To a true tombstone behind it the transform adds `__op` and nothing else.
    has_signs = _has_header("__op") & _has_header(*_MORE_SIGNS)
    has_attributes = F.array_contains(keys, "specversion") & F.array_contains(keys, "data")
    form = (
        F.when(_is_outbox(), "outbox")
        .when(~is_envelope & (has_sign | (has_signs & (is_empty | keys.isNotNull()))), "flattened")
        .when(has_attributes, "event")
        .otherwise("envelope")
    )
    # An application's own payload can be a CloudEvent.
    is_event = (F.col("form") == "event") | (
        (F.col("form") == "outbox") & has_attributes & F.array_contains(keys, f"{_EVENT}op")
    )
    is_inexact = (F.col("form") != "envelope") & F.col("parts.is_inexact")
    return (
        rows.withColumn("payload_schema", F.coalesce("parts.schema", "value_schema"))
        .withColumn("form", form)
        .withColumn("is_event", F.coalesce(is_event, F.lit(False)))
        .withColumn("payload", F.when((F.col("form") != "flattened") | ~is_empty, F.col("payload")))
        .withColumn("is_unwrapped", F.col("parts").isNotNull())
        .withColumn("payload_code", F.when(is_inexact, "payload-not-last"))
        .drop("text", "parts")
    )


def _parts_of(text: Column) -> Column:
    """Schema and payload of an object that is nothing else; NULL for any other text."""
    read = F.from_json(text, "`schema` string, payload string", JSON_LIMITS)
    exact = exact_field(text, "payload", read["payload"])
    is_wrapped = F.array_sort(F.json_object_keys(text)) == F.array(F.lit("payload"), F.lit("schema"))
    return F.when(
        is_wrapped,
        F.struct(
            read["schema"].alias("schema"),
            F.coalesce(exact, read["payload"]).alias("payload"),
            (exact.isNull() & read["payload"].isNotNull()).alias("is_inexact"),
        ),
    )


def exact_field(text: Column, name: str, read: Column) -> Column:
    """A field's value as an object's text spells it: what `from_json` gives of an object has numbers of 17 digits.

    Args:
        text: The object.
        name: The field: the last one, or spelled as Spark would spell it.
        read: Its value as `from_json` gives it.

    Returns:
        The text; NULL where the field stands before others and is spelled otherwise.
    """
    quoted = f'"{name}"'
    pieces = F.split(text, re.escape(quoted), _MOST_PLACES)
    fronts = F.transform(
        F.slice(pieces, F.lit(1), F.size(pieces) - F.lit(1)),
        lambda _, number: F.array_join(F.slice(pieces, F.lit(1), number + F.lit(1)), quoted),
    )
    # The name is the field's, and no text or field of something within, where an object could end in front of it.
    is_whole = F.filter(
        fronts,
        lambda front: F.json_object_keys(F.concat(F.rtrim(front, F.lit(", \n\r\t")), F.lit("}"))).isNotNull(),
    )
    front = F.try_element_at(is_whole, F.lit(-1))
    behind = F.substr(text, F.length(front) + F.lit(len(quoted) + 1))
    is_last = F.try_element_at(F.json_object_keys(text), F.lit(-1)) == name
    value = F.when(is_last & front.isNotNull(), F.regexp_extract(behind, r"(?s)^\s*:\s*(.*\S)\s*\}\s*$", 1))
    # Nothing is lost of a text, which may hold an object.
    is_text = ~read.startswith("{") | value.startswith('"')
    return F.when(read.isNull() | text.contains(read) | is_text, read).otherwise(value)


def _with_flattened(rows: DataFrame) -> DataFrame:
    """Add the envelope of flattened rows: `flat_text`, `flat_schema`, `flat_code` and `flat_missing`."""
    fields = F.from_json("payload", ", ".join(f"`{name}` string" for name in _METADATA), JSON_LIMITS)
    rows = (
        rows.withColumn("names", F.coalesce(F.json_object_keys("payload"), text_array([])))
        .withColumn("flat", F.when(F.col("form") == "flattened", fields))
        .withColumn("header_texts", F.when(F.col("form") == "flattened", _header_texts()))
        .withColumn("header_names", F.coalesce(F.map_keys("header_texts"), text_array([])))
        .withColumn("is_qualified", _is_qualified())
    )

    op = _metadata("op")
    missing = _missing()
    # The row with what was added to it: no column is declared or seen under those names.
    image = F.when(op == "d", F.lit(None)).otherwise(F.col("payload"))
    before = F.when(op == "d", F.col("payload"))
    nothing = F.lit("null")
    source = F.to_json(F.struct(*[_metadata(*_of_source(name)).alias(name) for name in _BLOCK]))
    # An `__id` alone can be a column of the table's own.
    its_id = F.when(_has_metadata("total_order", "data_collection_order"), _metadata("id"))
    transaction = F.struct(
        F.coalesce(_metadata("transaction_id"), its_id).alias("id"),
        _metadata("transaction_total_order", "total_order").alias("total_order"),
    )
    is_flattened = F.col("form") == "flattened"
    rows = rows.withColumn("missing", F.when(is_flattened, missing)).withColumn(
        "flat_code",
        F.when(is_flattened & _is_document(), "flattened-document").when(
            is_flattened & (F.size(missing) > 0), "flattened-without-fields"
        ),
    )
    return (
        rows.withColumn("flat_missing", F.concat(F.lit(_LACKS), F.array_join("missing", ", "), F.lit(_REMEDY)))
        .withColumn(
            "flat_text",
            _envelope(
                op,
                _metadata("ts_ms"),
                source,
                F.when(transaction["id"].isNotNull(), F.to_json(transaction)),
                F.concat(
                    F.lit('"before":'), F.coalesce(before, nothing), F.lit(',"after":'), F.coalesce(image, nothing)
                ),
            ),
        )
        .withColumn("flat_schema", F.when(F.col("payload").isNotNull(), _flat_schema()))
        .drop("names", "flat", "header_texts", "header_names", "is_qualified", "missing")
    )


def _metadata(*names: str) -> Column:
    """The first of these fields that is told of a flattened row, in it or in its headers, as text."""
    return F.coalesce(*[_added(f"__{name}") for name in names], *[F.col("header_texts")[f"__{name}"] for name in names])


def _has_metadata(*names: str) -> Column:
    """Whether a flattened row or its headers have one of these fields, be it NULL."""
    return F.arrays_overlap(F.concat("names", "header_names"), text_array([f"__{name}" for name in names]))


def _of_source(name: str) -> tuple[str, ...]:
    # Unqualified, these three are the envelope's.
    return (f"source_{name}",) if name in _TIME_FIELDS else (f"source_{name}", name)


def _missing() -> Column:
    """The fields that a flattened row lacks, under the names that they are added by."""
    lacking = {
        name: ~_has_metadata("op") if name == "op" else ~_has_metadata(*_of_source(name)) for name in _ALL_NEEDED
    }
    lacking["ts_ms"] = ~_has_metadata(*(f"source_{name}" for name in _TIME_FIELDS))
    wanted = F.coalesce(_wanted(_metadata(*_of_source("connector"))), text_array(_NEEDED))
    # A row tells its own delete where deletes are rewritten; else headers have to, on the tombstone that is left of it.
    by_headers = F.array_contains("header_names", "__op") & F.arrays_overlap("header_names", text_array(_MORE_SIGNS))
    no_deletes = F.col("payload").isNotNull() & ~_has_metadata("deleted") & ~by_headers
    return F.array_compact(
        F.array(
            *[
                F.when(F.array_contains(wanted, name) & is_lacking, f"__{_spelled(name)}")
                for name, is_lacking in lacking.items()
            ],
            F.when(no_deletes, "__deleted"),
        )
    )


def _is_document() -> Column:
    """Whether a flattened row was a document.

    Few ask for one of these fields; without them it is known by its `_id`, and the lone `id` of its record's key.
    """
    of_key = F.json_object_keys(object_of_key(F.coalesce("key_json", text_of(F.col("key")))))
    has_keys_of_document = F.array_contains("names", "_id") & (of_key == text_array(["id"]))
    return F.coalesce(
        _metadata(*_of_source("connector")) == "mongodb",
        _has_metadata("collection", "source_collection", "rs", "source_rs")
        | (~_has_metadata(*_of_source("connector")) & has_keys_of_document),
        F.lit(False),
    )


def _flat_schema() -> Column:
    """The shape of a flattened row: the schema of its fields, or their names where it has none."""
    fields = F.from_json("payload_schema", "fields string", JSON_LIMITS)["fields"]
    described = F.concat(
        F.lit('{"flattened":true'),
        F.when(F.col("is_qualified"), ',"qualified":true').otherwise(""),
        F.lit(',"fields":[{"field":"after","fields":'),
        fields,
        F.lit("}]}"),
    )
    own = F.filter(F.array_distinct("names"), lambda one: ~is_added(one, F.col("is_qualified")))
    return F.coalesce(described, F.to_json(F.array_sort(own)))


def _wanted(connector: Column) -> Column:
    """What a flattened row of a connector has to tell; NULL for a connector that is not known."""
    return literal_map({name: text_array([*_NEEDED, *more]) for name, more in _PLACE_FIELDS.items()})[connector]


def _is_qualified() -> Column:
    """Whether a flattened row was given all that it needs of its source by qualified names (`source.lsn`)."""
    name = "__source_connector"
    of_source = F.array_except(
        _wanted(F.coalesce(F.col("flat")[name], F.col("header_texts")[name])), text_array(_OF_ENVELOPE)
    )
    qualified = F.transform(of_source, lambda one: F.concat(F.lit("__source_"), one))
    return F.coalesce(F.size(F.array_except(qualified, F.concat("names", "header_names"))) == 0, F.lit(False))


def _added(name: str) -> Column:
    """A field of a flattened row as text, where it is none of its own columns."""
    field = F.col("flat")[name]
    return F.when(~F.col("is_qualified"), field) if name in _OWN_IF_QUALIFIED else field


def is_added(name: Column, is_qualified: Column) -> Column:
    """Whether a field of a flattened row is none of its columns: the transform adds what has such a name."""
    return name.isin(*_METADATA) & ~(is_qualified & name.isin(*_OWN_IF_QUALIFIED))


def _with_events(spark: SparkSession, rows: DataFrame, registries: Registries) -> DataFrame:
    """Add what CloudEvents hold: their envelope `event_text`, and `event_data`, `event_schema` and `event_code`."""
    attributes = {name: f"{_EVENT}{name.replace('_', '')}" for name in _BLOCK}
    # The converter keeps the capitals of names; the documents print none.
    printed = {name: said.lower() for name, said in attributes.items()}
    more = ["time", "data", *[f"{_EVENT}{name}" for name in ("op", "txtotalorder")]]
    wanted = ", ".join(f"`{name}` string" for name in dict.fromkeys([*more, *attributes.values(), *printed.values()]))
    event = F.when(F.col("is_event"), F.from_json("payload", wanted, JSON_LIMITS))
    is_object = F.col("event.data").startswith("{")
    packed = F.try_to_binary(F.when(~is_object, F.col("event.data")), F.lit("base64"))
    rows = rows.withColumn("event", event).withColumn("packed", packed).localCheckpoint()
    if rows.where(has_magic(F.col("packed"))).limit(1).count():
        none = F.array().cast(HEADERS)
        rows = decoded(spark, rows, {"data": wire_format(F.col("packed"), none, "data")}, registries).localCheckpoint()
    else:
        rows = rows.withColumns({f"data_{name}": F.lit(None).cast("string") for name in ("json", "schema", "code")})
    plain = F.when(is_object, exact_field(F.col("payload"), "data", F.col("event.data"))).otherwise(
        F.coalesce("data_json", text_of(F.col("packed")))
    )
    rows = rows.withColumn("data", plain).withColumn("data_parts", _parts_of(F.col("data")))
    is_inexact = (is_object & F.col("data").isNull()) | F.coalesce("data_parts.is_inexact", F.lit(False))
    images = F.trim(
        F.when(F.col("data_parts").isNull(), F.col("data")).otherwise(F.col("data_parts.payload")), F.lit(" \n\r\t")
    )
    members = F.when(F.json_object_keys(images).isNotNull(), F.substr(images, F.lit(2), F.length(images) - F.lit(2)))
    attribute = {
        name: F.coalesce(*[F.col(f"event.{one}") for one in dict.fromkeys((said, printed[name]))])
        for name, said in attributes.items()
    }
    # Without capitals the ids of source and transaction have one attribute, and it holds the transaction's.
    its_id = F.col(f"event.{printed['txId']}")
    has_position = attribute["connector"] == "postgresql"
    of_source = F.when(has_position, F.split_part(its_id, F.lit(":"), F.lit(1))).otherwise(its_id)
    attribute["txId"] = F.coalesce(f"event.{attributes['txId']}", of_source)
    order = F.col(f"event.{_EVENT}txtotalorder")
    transaction = F.when(order.isNotNull(), F.to_json(F.struct(its_id.alias("id"), order.alias("total_order"))))
    source = F.to_json(F.struct(*[value.alias(name) for name, value in attribute.items()]))
    # The envelope's time is not among the attributes. Where the source has none, as for MongoDB's reads, the event's
    # own is left; most often it is made of the source's, and is 1970 then.
    has_time = F.coalesce(*[F.nullif(attribute[name], F.lit("0")) for name in _TIME_FIELDS]).isNotNull()
    at = F.unix_millis(F.try_to_timestamp("event.time"))
    at = F.when(~has_time & (at > 0), at.cast("string"))
    # Whatever an outbox's event has for its data.
    is_change = F.col("form") == "event"
    is_row = F.col(f"event.{_EVENT}op").isin("c", "u", "d", "r")
    has_images = F.arrays_overlap(F.json_object_keys(images), text_array(["before", "after", "updateDescription"]))
    code = F.coalesce(
        F.when(F.col(f"event.{_EVENT}op").isNull(), "event-without-attributes"),
        F.col("data_code"),
        F.when(is_inexact, "payload-not-last"),
        F.when(is_change & is_row & ~has_images, "event-without-images"),
        F.when(is_change & ~has_time & at.isNull(), "event-without-time"),
    )
    return rows.withColumns(
        {
            "event_text": _envelope(F.col(f"event.{_EVENT}op"), at, source, transaction, members),
            "event_data": images,
            "event_schema": F.coalesce("data_schema", "data_parts.schema"),
            "event_code": F.when(F.col("is_event"), code),
        }
    )


def _envelope(op: Column, at: Column, source: Column, transaction: Column, images: Column) -> Column:
    """The JSON text of an envelope: `images` as members of an object, `op` and `at` plain texts, the others JSON."""
    parts = {"op": quoted_json(op), "ts_ms": quoted_json(at), "source": source, "transaction": transaction}
    said = [F.concat(F.lit(f'"{name}":'), F.coalesce(text, F.lit("null"))) for name, text in parts.items()]
    # Of a name that an object has twice the last counts.
    return F.concat(F.lit("{"), F.concat_ws(",", F.nullif(F.trim(images), F.lit("")), *said), F.lit("}"))


def quoted_json(text: Column) -> Column:
    """A text as JSON writes it; NULL stays NULL."""
    return F.when(text.isNotNull(), inside(F.to_json(F.struct(text.alias("v")))))


def _spelled(name: str) -> str:
    return name if name == "op" else f"source_{name}"


def _has_header(*names: str) -> Column:
    return F.exists("headers", lambda one: one["key"].isin(*names))


def _header_texts() -> Column:
    """Header → text, as converters of headers write it: plain, quoted, or with a schema around it."""
    return F.map_from_entries(
        F.transform(
            F.filter("headers", lambda one: one["key"].isNotNull()),
            lambda one: F.struct(one["key"].alias("key"), _header_text(one["value"]).alias("value")),
        )
    )


def _header_text(value: Column) -> Column:
    text = text_of(value)
    payload = F.get_json_object(text, "$.payload")
    unquoted = F.get_json_object(F.concat(F.lit('{"v":'), text, F.lit("}")), "$.v")
    plain = (
        F.when(text.startswith("{"), F.nullif(payload, F.lit("null")))
        .when(text.startswith('"'), F.coalesce(unquoted, text))
        .otherwise(text)
    )
    return F.nullif(plain, F.lit("null"))


def _is_outbox() -> Column:
    """Whether a record is what EventRouter writes: on its topics, with the event's id in the header `id`."""
    return F.col("topic").startswith(OUTBOX_TOPIC) & F.exists("headers", lambda one: one["key"] == "id")


def _with_id_in_json(value: Column) -> Column:
    """The id of a value: in front of its bytes, or in the JSON that Apicurio's converter writes around it."""
    text = text_of(F.col("value"))
    found = [F.regexp_extract(text, _WITH_ID, number) for number in (1, 2)]
    pretty = F.struct(
        F.lit(LONG).alias("kind"), found[0].try_cast("bigint").alias("id"), found[1].cast("binary").alias("data")
    )
    return F.coalesce(value, F.when(text.rlike(_WITH_ID), pretty))
