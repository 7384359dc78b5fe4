{#-
  Law: an account has each change of its log under one disposition (G6), and gold has a version for each change that opened
  one. A state that a first change found (R19) may stand beside the change's own, or for it.
-#}
{% test every_change_is_accounted_for(model, changes, history=none, opened_by='opened_by') %}
{%- set opened_by = own('opened_by', names_of_model(history, {'opened_by': opened_by}) if history else {}) %}
with

account as (

    select
        coalesce(sum(records) filter (where kind = 'disposition'), 0) as accounted_for,
        coalesce(sum(records) filter (where kind = 'disposition' and name = 'opened'), 0) as opened,
        coalesce(sum(records) filter (where kind = 'sign' and name = 'found_states'), 0) as found
    from {{ account_now(model) }} as counted

),

log as (

    select count(*) as changes from {{ changes }}

),
{%- if history %}

gold as (

    select
        count_if({{ opened_by }} != 'before') as versions,
        count_if({{ opened_by }} = 'before') as found_versions
    from {{ history }}

),
{%- endif %}

sums as (

    select *
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
    or opened not between versions and versions + found_versions
    or found != found_versions
    {%- endif %}
{% endtest %}
