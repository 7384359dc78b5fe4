{#-
  Condition: whether a record of bronze has the feed of a topic, as those of no table have (landing/envelope.py). Of bronze's
  partitions, which are feeds, Delta then reads no table's.
-#}
{% macro is_of_no_table() -%}
    startswith(feed, 'topic__')
{%- endmacro %}
