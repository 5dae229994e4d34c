"""What templates write without a filter is data: coordinates, values of fields, attributes. It stays as programs read it.

Figures for people go through the filters of `admin_ui.templatetags.console`, which know the language.
"""

DECIMAL_SEPARATOR = "."
THOUSAND_SEPARATOR = ","
NUMBER_GROUPING = 0
