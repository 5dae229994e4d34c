# C types for `metadata.py` where it is compiled; the source stays plain Python. Bounds stay checked: a peer controls every byte.
cimport cython

@cython.locals(
    at_ms="unsigned long long", key="unsigned long long", kind="unsigned int", shift="unsigned int", byte="unsigned long long",
    value="unsigned long long")
cpdef unsigned long long deliver_at(bytes buf, Py_ssize_t pos, Py_ssize_t stop) except? 0xffffffffffffffff
