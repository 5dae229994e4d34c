"""Messages of topics for those who may read them, in REST and console alike.

query    what is asked for, from the parameters of a request
pages    pages of messages: partition by partition, decoded
"""
