"""Policies: which there are, which values they take, and which value is in force.

registry     the one place where a policy exists: `table_*`, made of `model.Policy`
validation   whether a value may be stored
resolution   the value in force, and where it was set
ceilings     the policies that limit a tenant as a whole, and how much of each is used
pulsar       policies as Pulsar's admin API has them; `api_schema` as ours has
"""
