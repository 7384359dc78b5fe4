{#- Binary: base64 of each encoding. -#}

{% macro base64_of_url_safe(text, encoding=none, type=none) -%}
    translate({{ text }}, '-_', '+/')
{%- endmacro %}


{% macro base64_of_hex(text, encoding=none, type=none) -%}
    coalesce(base64(try_to_binary({{ text }}, 'hex')), {{ text }})
{%- endmacro %}


{#- Base64 of either alphabet, where nothing names it. Text of hexadecimal digits alone could be both, and is left. -#}
{% macro base64_of_any(text, encoding=none, type=none) -%}
    if({{ text }} rlike '^([0-9a-f]{2})+$', {{ marked(text) }}, {{ base64_of_url_safe(text) }})
{%- endmacro %}
