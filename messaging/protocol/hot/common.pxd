# C types for `common.py` where it is compiled; the source stays plain Python.
cimport cython

cdef list VARINTS

@cython.final
@cython.freelist(1024)
cdef class SendFrame:
    cdef public unsigned long long producer_id
    cdef public unsigned long long sequence_id
    cdef public Py_ssize_t start
    cdef public Py_ssize_t payload_start
    cdef public Py_ssize_t end
    cdef public unsigned long long message_count
    cdef public unsigned long long highest_sequence_id
    cdef public unsigned int flags

@cython.final
cdef class BlockSummary:
    cdef public unsigned int flags
    cdef public Py_ssize_t message_count
    cdef public Py_ssize_t payload_bytes
    cdef public object end_offsets

@cython.locals(out=bytearray)
cpdef bytes varint(unsigned long long value)
