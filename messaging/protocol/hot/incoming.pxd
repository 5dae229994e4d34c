# C types for `incoming.py` where it is compiled; the source stays plain Python. Bounds stay checked: a peer controls every byte.
cimport cython

from messaging.protocol.hot.common cimport SendFrame, varint
from messaging.protocol.hot.metadata cimport deliver_at

cdef bint WALKS
cdef Py_ssize_t COPIED_BYTES_MAX
cdef unsigned long long BATCH_MESSAGES_MAX, BATCHED_MESSAGE_BYTES_MIN, COUNT_MAX

@cython.locals(
    stop=Py_ssize_t, size=Py_ssize_t, high=Py_ssize_t, body=Py_ssize_t, i=Py_ssize_t, length=Py_ssize_t, left=Py_ssize_t,
    frame=SendFrame)
cpdef Py_ssize_t scan(bytes buf, Py_ssize_t pos, Py_ssize_t end, list out, bint verified=*, Py_ssize_t most=*) except -1

@cython.locals(
    producer_id="unsigned long long", sequence_id="unsigned long long", count="unsigned long long", highest="unsigned long long",
    flags="unsigned int", key="unsigned int", value="unsigned long long", shift="unsigned int", byte="unsigned long long")
cdef Py_ssize_t _read_fields(bytes buf, Py_ssize_t i, Py_ssize_t stop, SendFrame frame) except -1

@cython.locals(expected="unsigned int", covered=object, high=Py_ssize_t, size=Py_ssize_t, due="unsigned long long")
cdef Py_ssize_t _check_message(bytes buf, Py_ssize_t i, Py_ssize_t stop, SendFrame frame, bint verified) except -1
