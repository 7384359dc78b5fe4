{#-
  The source transaction of a change (R11); NULL for a snapshot read, which is in none, and where the source names none.
  Args are expressions: the connector, the source block, and the envelope's transaction id. PostgreSQL's is `txId:lsn`
  with another lsn on each event, so only what stands before the colon names the transaction.
-#}
{% macro transaction_id(connector, op, source, transaction) -%}
    case
        when {{ op }} = 'r' then null
        when {{ connector }} in ('mysql', 'mariadb') then coalesce({{ source }}.gtid, {{ transaction }})
        else coalesce({{ source }}.`txId`, split_part({{ transaction }}, ':', 1))
    end
{%- endmacro %}


{#- Expression: the transaction that a BEGIN or an END names, spelled as `transaction_id` spells it (G7). -#}
{% macro transaction_of_boundary(connector, id) -%}
    {{ "split_part(" ~ id ~ ", ':', 1)" if connector == 'postgresql' else id }}
{%- endmacro %}
