# C types for `outgoing.py` where it is compiled; the source stays plain Python. Bounds of what was received stay checked: a peer
# controls every byte. Receipts are written unchecked into room for the widest numbers there are.
cimport cython

from messaging.protocol.hot.common cimport SendFrame, varint

cdef list VARINTS
cdef list LENGTHS

cdef Py_ssize_t HEAD_BYTES_MAX
cdef Py_ssize_t RECEIPT_BYTES_MAX

cdef Py_ssize_t width(unsigned long long value)
cdef Py_ssize_t put(unsigned char* out, Py_ssize_t at, unsigned long long value)

@cython.locals(
    made=bytearray, out="unsigned char*", at=Py_ssize_t, ledger_size=Py_ssize_t, index=Py_ssize_t, frame=SendFrame,
    producer_id="unsigned long long", sequence_id="unsigned long long", highest="unsigned long long", id_size=Py_ssize_t,
    size=Py_ssize_t)
cpdef bytes receipts(list frames, Py_ssize_t first, Py_ssize_t last, unsigned long long ledger_id, unsigned long long entry_id,
                     unsigned long long step=*)

@cython.locals(
    parts=list, ledger=bytes, begin=bytes, message_id=bytes, body=bytes, size=Py_ssize_t, index=Py_ssize_t, frame=SendFrame)
cpdef bytes joined_receipts(list frames, Py_ssize_t first, Py_ssize_t last, unsigned long long ledger_id, unsigned long long entry_id,
                            unsigned long long step=*)

@cython.locals(
    number=bytes, made=bytearray, out="unsigned char[::1]",
    head="const unsigned char[::1]", at=Py_ssize_t, size=Py_ssize_t, place=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t,
    stop=Py_ssize_t, body=Py_ssize_t, high=Py_ssize_t, i=Py_ssize_t, value="unsigned long long", longer_from="unsigned long long")
cpdef object messages(const unsigned char[::1] data, const unsigned int[::1] end_offsets, Py_ssize_t first, Py_ssize_t last,
                      unsigned long long ledger_id, unsigned long long entry_id, unsigned long long consumer_id, bytes tail)

@cython.locals(message_id=bytes, command=bytes)
cpdef bytes message_head(Py_ssize_t payload_bytes, unsigned long long ledger_id, unsigned long long entry_id,
                         unsigned long long consumer_id, bytes tail)

@cython.locals(
    number=bytes, made=bytearray, out="unsigned char[::1]",
    head="const unsigned char[::1]", at=Py_ssize_t, size=Py_ssize_t, place=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t,
    stop=Py_ssize_t, body=Py_ssize_t, high=Py_ssize_t, i=Py_ssize_t, value="unsigned long long", longer_from="unsigned long long",
    entry_id="unsigned long long")
cpdef object picked_messages(const unsigned char[::1] data, const unsigned int[::1] end_offsets, list picked,
                             unsigned long long ledger_id, unsigned long long first_entry, unsigned long long consumer_id,
                             bytes tail)
