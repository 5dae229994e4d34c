"""Languages beside English, for the console, mails and invoices: the catalogues, and what was said in English in another."""
