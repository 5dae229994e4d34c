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
    cdef public unsigned long long deliver_at_ms

@cython.final
cdef class BlockSummary:
    cdef public unsigned int flags
    cdef public Py_ssize_t message_count
    cdef public Py_ssize_t payload_bytes
    cdef public object end_offsets

@cython.locals(producer_id="unsigned long long", frame=SendFrame, groups=dict, group=list)
cpdef list group_by_producer(list frames)

@cython.locals(
    end_offsets=list, frame=SendFrame, total=Py_ssize_t, payload=Py_ssize_t, messages=Py_ssize_t, flags="unsigned int",
    summary=BlockSummary)
cpdef BlockSummary summarize(list frames)

@cython.locals(out=bytearray)
cpdef bytes varint(unsigned long long value)
