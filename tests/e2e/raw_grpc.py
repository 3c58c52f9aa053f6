"""raw_grpc.py - FlightData by hand over grpcio, for bytes that no Arrow library would send."""
import grpc

import lake


def put(server, messages, timeout=20):
    """Streams (descriptor bytes or None, header, body) messages into DoPut; returns the status name and details."""
    encoded = []
    for descriptor, header, body in messages:
        data = lake.field(1, descriptor) if descriptor is not None else b""
        encoded.append(data + lake.field(2, header) + (lake.field(1000, body) if body is not None else b""))
    with grpc.insecure_channel(f"127.0.0.1:{server.port}",
                               options=[("grpc.max_send_message_length", -1)]) as channel:
        call = channel.stream_stream("/arrow.flight.protocol.FlightService/DoPut")
        try:
            list(call(iter(encoded), timeout=timeout))
            return "OK", ""
        except grpc.RpcError as error:
            return error.code().name, error.details()
