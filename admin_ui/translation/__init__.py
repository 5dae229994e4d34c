"""Languages of the console: which one a request gets, and the catalogues of translations. Templates and sources are in English."""
