{#-
  Law: an account has each change of its log under one disposition (G6), and gold has versions of as many changes as opened
  one, as many of them with unknown or exact values as its changes told.
-#}
{% test every_change_is_accounted_for(model, changes, history=none, opened_by='opened_by') %}
with

account as (

    select
        coalesce(sum(records) filter (where kind = 'disposition'), 0) as accounted_for,
        coalesce(sum(records) filter (where kind = 'disposition' and name = 'opened'), 0) as opened,
        coalesce(sum(records) filter (where kind = 'sign' and name = 'found_states'), 0) as found,
        coalesce(sum(records) filter (where kind = 'sign' and name = 'unresolved_columns'), 0) as unresolved,
        coalesce(sum(records) filter (where kind = 'sign' and name = 'exact_values'), 0) as inexact
    from {{ account_now(model) }} as counted

),

log as (

    select count(*) as changes from {{ changes }}

),
{%- if history %}

gold as (

    {{ changes_of_versions(history, names_of_model(history, {'opened_by': opened_by})) }}

),
{%- endif %}

sums as (

    select
        account.*,
        log.changes
        {%- if history %},
        gold.opened as opened_in_gold,
        gold.found_versions,
        gold.unresolved_versions,
        gold.inexact_versions
        {%- endif %}
    from account
    cross join log
    {%- if history %}
    cross join gold
    {%- endif %}

)

select *
from sums
where accounted_for != changes
    {%- if history %}
    or opened != opened_in_gold
    or found != found_versions
    or unresolved != unresolved_versions
    or inexact != inexact_versions
    {%- endif %}
{% endtest %}
