# C types for `keyed.py` where it is compiled; the source stays plain Python. Bounds stay checked: a peer controls every byte.
cimport cython

cdef unsigned long long MASK
cdef unsigned long long FACTOR_1
cdef unsigned long long FACTOR_2
cdef unsigned long long ADDED
cdef unsigned long long LAST_1
cdef unsigned long long LAST_2

@cython.locals(hashed="unsigned long long", size=Py_ssize_t, whole=Py_ssize_t, part="unsigned long long")
cpdef unsigned int murmur(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop) except? 1

@cython.locals(
    compiled=bint, made=object, hashes="unsigned int[::1]", start=Py_ssize_t, index=Py_ssize_t, stop=Py_ssize_t, i=Py_ssize_t,
    high=Py_ssize_t, end=Py_ssize_t, name=Py_ssize_t, name_end=Py_ssize_t, key=Py_ssize_t, key_end=Py_ssize_t, ordering=bint,
    sequence_id="unsigned long long", encoded=bint, readable=bint, tag="unsigned long long", shift="unsigned int",
    byte="unsigned long long", value="unsigned long long", wire_type="unsigned int")
cpdef object key_hashes(const unsigned char[::1] data, const unsigned int[::1] end_offsets)

@cython.locals(
    compiled=bint, some_closed=bint, index=Py_ssize_t, slot="unsigned int", low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t,
    owner=Py_ssize_t, messages="long long")
cpdef Py_ssize_t route(
    const unsigned int[::1] hashes, Py_ssize_t first, Py_ssize_t last, unsigned int slots, unsigned int first_slot,
    const unsigned int[::1] bounds, const unsigned int[::1] owners, long long[::1] rooms, object closed, list counts, list picked,
    list aside, Py_ssize_t aside_max) except -1
