"""What requests are refused with before any view sees them. Pages say it too, in the language of whoever reads them."""

TOO_LARGE = "the body of the request is larger than 1 MiB"
NOT_UNDERSTOOD = "the request cannot be understood"
FORM_TOO_OLD = "the form was too old, or cookies are off: go back, reload the page and try again"
FOR_A_FORM = "this address takes what a form of another page sends, and shows nothing by itself: go back to that page"
MAY_NOT = "you may not do this"
