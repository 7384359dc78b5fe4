"""The codes with which landing quarantines, each with its reason in words (R2)."""

REASONS = {
    "line-not-json": "the line is not one JSON object",
    "not-unicode": "it has bytes that are no UTF-8, or spells half a letter (a surrogate alone)",
    "base64-not-understood": "what should be base64 is none",
    "headers-not-understood": "the headers are no list of keys and values",
    "line-bad-number": "partition and offset have to be whole numbers that Kafka can have, and a timestamp milliseconds"
    " since 1970 or a time in ISO 8601",
    "line-not-decoded": "kcat couldn't decode its key or value (key_error, payload_error): land the topic from Kafka",
    "line-without-offset": "the line has no topic, partition or offset: a Debezium value alone is no record; the"
    ' README\'s "Your own project" shows how to give it them',
    "line-without-value": "the line has no value, payload or value_base64, and fields of other names, one of which"
    " may be it; a tombstone's value is null",
    "value-not-json": "the value is not one JSON object",
    "key-not-json": "the key is not JSON",
    "schema-without-payload": "the value has a schema and no payload",
    "no-envelope": "the value is no Debezium envelope, or one without its source block, as Flink and SeaTunnel write"
    " it, and none of the events beside them: land what the connector wrote; rows that"
    " ExtractNewRecordState flattened need its add.fields to tell op, source and place in the log, and for documents"
    " ExtractNewDocumentState has to be taken out",
    "flattened-without-fields": "a flattened row that lacks fields of its source",
    "flattened-document": "a document that ExtractNewDocumentState flattened: it has lost its BSON types, and an update"
    " doesn't tell what it left alone; take the transform out of the connector",
    "event-without-attributes": "a CloudEvent without op and source: set extension.attributes.enable=true",
    "event-without-images": "a CloudEvent whose data has no before and after: take ExtractNewRecordState out of the"
    " connector",
    "event-without-time": "a CloudEvent without a time: MongoDB's reads have that of their envelope alone, which"
    " CloudEvents leave out; take snapshots with another converter",
    "payload-not-last": "its payload, or a CloudEvent's data, stands before other fields, spelled so that its numbers"
    " can't be taken over digit by digit",
    "registry-unknown": "it holds the id of a schema, and no registry that gives such ids is set: set"
    " TIDEMARK_REGISTRY_URL, then release it",
    "schema-unknown": "the schema registry knows no schema of its id",
    "schema-ambiguous": "two schema registries give different schemas for its id, and nothing tells of which it is: set"
    " the one of its topic alone, then release it",
    "schema-not-read": "its schema is none of Avro, JSON Schema or Connect that can be read",
    "schema-protobuf": "Protobuf isn't read: set AvroConverter or JsonConverter in the connector",
    "schema-of-glue": "it is written by AWS Glue's converter, whose registry isn't asked: set JsonConverter in the"
    " connector, or an AvroConverter with a registry of Confluent's or Apicurio's kind",
    "schema-by-guid": "a header names its schema by a GUID, which isn't looked up: have the converter write ids in"
    " front of keys and values (PrefixSchemaIdSerializer)",
    "schema-not-asked": "one landing asks for a thousand schemas, and its was not among the most frequent: release it",
    "avro-not-decoded": "its bytes are no value of their schema",
    "no-source": "its source block lacks the source's name, or the table's or collection's, as Flink CDC and RisingWave"
    " write it: land what the connector wrote; a logical decoding message of which"
    " DecodeLogicalDecodingMessageContent left its content alone is no event without EventRouter behind that transform",
    "unknown-op": "the envelope's op is none of c, u, d, r, t, m",
    "no-time": "neither the envelope nor its source tells a time",
    "bad-number": "a time or a place in the log is told that is no whole number within range",
    "avro-as-text": 'it is Avro printed as text, which names the type of what can be NULL ({"long": 17}), as kcat -s'
    " and kafka-avro-console-consumer print it: land the topic from Kafka",
    "no-after": "an insert, update or read without the row's state after it",
    "no-message": "a logical decoding message without its prefix and content",
}
