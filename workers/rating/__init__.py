"""From usage and price plans to invoices: pure functions over integers and fractions (ADR 44).

    units     meters, and the units in which their prices are given
    money     currencies, amounts in minor units, the one rounding
    split     an amount handed out to parts that sum to it
    plan      a version of a price plan, read from its document and checked
    charge    what a quantity costs by one price
    rate      the invoice of one tenant and one period
    credit    credits and tax
    document  the invoice as JSON
    statement what was charged for each line, over all documents about it
    adjust    what late usage changes about an invoice that is final
    credit_note  what a credit note takes back
    months    which months are still to be billed
    verify    an invoice against usage and plan: which lines differ, and why

Needs nothing but the standard library: a customer runs it without the platform. Reads no clock, no file and no database.
"""
