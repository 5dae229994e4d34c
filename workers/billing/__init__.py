"""Price plans, invoices, costs, budgets and reports: what is stored of billing, the tasks that make it, and its API.

models      the tables
usage       the one place that reads hourly usage
drafts      the invoice of a month from usage and plans (`workers.rating` computes it), and its charges per day and topic
closing     the end of a month: numbers, final invoices, credit notes
actions     what administrators and owners change, with its audit record
budgets, reports, outlook  the running month, what was reached, what is made on schedule, what could be saved
costs       sums of charges, for the cost explorer and for reports
rest, budget_rest, urls  the API
"""
