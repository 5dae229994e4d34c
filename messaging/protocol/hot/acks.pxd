# C types for `acks.py` where it is compiled; the source stays plain Python. Bounds stay checked: a peer controls every byte.
cimport cython

cdef Py_ssize_t ACK_IDS_MAX

@cython.locals(consumer_id=object, ledger_id=object, consumer=object, ledger=object, groups=dict, group=list)
cpdef dict group_acks(list acked)

@cython.locals(
    stop=Py_ssize_t, size=Py_ssize_t, high=Py_ssize_t, i=Py_ssize_t, inner=Py_ssize_t,
    consumer_id="unsigned long long", ledger_id="long long", entry_id="long long", plain=bint, key="unsigned int",
    value="unsigned long long", shift="unsigned int", byte="unsigned long long", taken=Py_ssize_t, ids=Py_ssize_t,
    body=Py_ssize_t)
cpdef Py_ssize_t scan_acks(bytes buf, Py_ssize_t pos, Py_ssize_t end, list out, Py_ssize_t most=*) except -1
