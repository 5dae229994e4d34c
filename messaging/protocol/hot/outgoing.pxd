# C types for `outgoing.py` where it is compiled; the source stays plain Python. Bounds stay checked: a peer controls every byte.
cimport cython

@cython.locals(out=bytearray)
cpdef bytes varint(unsigned long long value)

cdef list VARINTS
cdef list LENGTHS

@cython.locals(
    parts=list, ledger=bytes, message_id=bytes, body=bytes, size=Py_ssize_t, index=Py_ssize_t, one=tuple)
cpdef bytes receipts(list sent, Py_ssize_t first, Py_ssize_t last, unsigned long long ledger_id, unsigned long long entry_id)

@cython.locals(
    prefix=bytes, ledger=bytes, number=bytes, message_id=bytes, command=bytes, made=bytearray, out="unsigned char[::1]",
    head="const unsigned char[::1]", at=Py_ssize_t, size=Py_ssize_t, place=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t,
    stop=Py_ssize_t, body=Py_ssize_t, high=Py_ssize_t, i=Py_ssize_t, value="unsigned long long", longer_from="unsigned long long")
cpdef object messages(const unsigned char[::1] data, const unsigned int[::1] stops, Py_ssize_t first, Py_ssize_t last,
                      unsigned long long ledger_id, unsigned long long entry_id, unsigned long long consumer_id, bytes tail)
