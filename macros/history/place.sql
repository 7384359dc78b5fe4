{#-
  The order of a key's changes and of its versions (R4): by position and, where that ties, by partition, offset and topic
  of the delivery that counts. `rank` puts what a change found (R19) before the change itself.
-#}


{#- Expression: where something stands in that order. -#}
{% macro place_by(position, partition, offset, topic, rank) -%}
    struct(
        {{ position }} as position, {{ partition }} as `partition`, {{ offset }} as `offset`, {{ topic }} as topic,
        {{ rank }} as rank
    )
{%- endmacro %}


{#- Expression: the place of a change. -#}
{% macro place(relation, rank=1) -%}
    {{ place_by(relation ~ '.position', relation ~ '.`partition`', relation ~ '.`offset`', relation ~ '.topic', rank) }}
{%- endmacro %}


{#- Expression: the place of a version, under the names that gold's own columns have in a history. -#}
{% macro place_of_version(names) -%}
    {{ place_by(
        own('position', names), own('partition', names), own('offset', names), own('topic', names),
        'if(' ~ own('opened_by', names) ~ " = 'before', 0, 1)"
    ) }}
{%- endmacro %}


{#- Expression: the structs of a group as an array in that order; `change` has the field `place`. -#}
{% macro in_order_of_place(change) -%}
    array_sort(
        collect_list({{ change }}),
        (one, other) -> case when one.place < other.place then -1 when one.place > other.place then 1 else 0 end
    )
{%- endmacro %}
