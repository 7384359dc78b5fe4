{#-
  What makes a fold take steps that it leaves out elsewhere: name → the condition on a change of a log.

      truncates     it ends rows of all keys (R15)
      unavailable   its event leaves a value out (R7)
      linked        such a value may be that of a row with another key (R7, R14)
      moves         an update takes a row to another key (R14)
      leaves        a delete is the half of a change of key (R14)
      absent        it lacks a column (R8)
      inexact       a value has its exact text beside it (R6)
      whole_before  it says which state it found (R19)
      reads         it is a read, whose time is a clock (R10, R16)
      placeless     it is a read that tells no position (R4)
      problems      it is kept out of histories (R2)
-#}
{% macro hazard_conditions() -%}
    {{ return({
        'truncates': "op = 't'",
        'unavailable': 'size(unavailable_columns) > 0',
        'linked': 'previous_key is not null and size(unavailable_columns) > 0',
        'moves': "op = 'u' and previous_key is not null",
        'leaves': "op = 'd' and next_key is not null",
        'absent': 'size(absent_columns) > 0',
        'inexact': 'size(exact_values) > 0',
        'whole_before': "is_before_whole and op in ('u', 'd')",
        'reads': "op = 'r'",
        'placeless': "op = 'r' and position is null and problem is null",
        'problems': 'problem is not null'
    }) }}
{%- endmacro %}


{#- Every hazard, for a fold that stands alone. -#}
{% macro every_hazard() -%}
    {%- set hazards = {} -%}
    {%- for name in hazard_conditions() -%}{%- do hazards.update({name: true}) -%}{%- endfor -%}
    {{ return(hazards) }}
{%- endmacro %}


{#- Expression list: how many changes of a log have each hazard. -#}
{% macro hazard_counts() -%}
    {%- for name, condition in hazard_conditions().items() -%}
        count_if({{ condition }}) as {{ name }}{{ ', ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}


{#- Which hazards a row of these counts shows. -#}
{% macro hazards_in(counts) -%}
    {%- set hazards = {} -%}
    {%- for name in hazard_conditions() -%}{%- do hazards.update({name: counts[name] > 0}) -%}{%- endfor -%}
    {{ return(hazards) }}
{%- endmacro %}


{#- The hazards that one of two has. -#}
{% macro both_hazards(one, other) -%}
    {%- set hazards = {} -%}
    {%- for name in hazard_conditions() -%}
        {%- do hazards.update({name: one.get(name, false) or other.get(name, false)}) -%}
    {%- endfor -%}
    {{ return(hazards) }}
{%- endmacro %}


{#- The hazards of a log, by what its build wrote down. -#}
{% macro hazards_of_log(built) -%}
    {{ return(dict(built.hazards, absent=true) if built.get('late') else built.hazards) }}
{%- endmacro %}
