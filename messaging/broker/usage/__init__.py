"""Usage metering: what the topics of this broker carried and stored, as records that a job turns into hours.

`recorder` is the pure core (running totals in, records out), `writer` puts records into files, `collector` is the thin shell that
a broker owns.
"""
