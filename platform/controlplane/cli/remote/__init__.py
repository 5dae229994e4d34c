"""Commands that speak to a platform over /api/v1, for people and scripts. They load no Django.

Exit codes: 0 done; 1 something unexpected; 3 not signed in, or not allowed; 4 it does not exist; 5 it
is in conflict with what is there; 6 the platform is not responding, or not yet; 7 the platform refused the request; 64 the command
line, a context or a file is wrong.
"""
