"""flight_peer.py COUNT BATCH_ROWS - the reference for reads: a pyarrow Flight server that has the rows in memory.

Descriptor command "all" streams them as they lie; "row N" takes row N by its position; "filter N" looks for id N in
all of them. No SQL, no versions, no sealed tickets, no storage. Prints its port, serves until its standard input ends.
"""
import sys
import threading

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as flight

import measure


class Peer(flight.FlightServerBase):
    def __init__(self, table, batch_rows):
        super().__init__("grpc://127.0.0.1:0")
        self.table = table
        self.chunks = table.to_batches(max_chunksize=batch_rows)

    def get_flight_info(self, context, descriptor):
        endpoint = flight.FlightEndpoint(descriptor.command, [])
        return flight.FlightInfo(self.table.schema, descriptor, [endpoint], -1, -1)

    def do_get(self, context, ticket):
        if ticket.ticket.startswith(b"row "):
            return flight.RecordBatchStream(self.table.slice(int(ticket.ticket[4:]), 1))
        if ticket.ticket.startswith(b"filter "):
            return flight.RecordBatchStream(self.table.filter(pc.field("id") == int(ticket.ticket[7:])))
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(self.table.schema, self.chunks))


def main():
    count, batch_rows = int(sys.argv[1]), int(sys.argv[2])
    table = pa.Table.from_batches(measure.batches(count), measure.SCHEMA)
    with Peer(table, batch_rows) as peer:
        print(peer.port, flush=True)
        threading.Thread(target=lambda: (sys.stdin.read(), peer.shutdown()), daemon=True).start()
        peer.serve()


if __name__ == "__main__":
    main()
