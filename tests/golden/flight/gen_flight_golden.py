"""Prints src/flight/pb_flight_golden.h: messages serialised by Google's protobuf library.

Needs Flight.proto and FlightSql.proto (in the jar org.apache.arrow:flight-core:19.0.0) compiled by
grpc_tools.protoc into a directory named as the only argument:

    python -m grpc_tools.protoc --python_out=DIR -I. Flight.proto FlightSql.proto
    python gen_flight_golden.py DIR > src/flight/pb_flight_golden.h
"""
import sys

sys.path.insert(0, sys.argv[1])
import Flight_pb2 as f  # noqa: E402
import FlightSql_pb2 as s  # noqa: E402
from google.protobuf.any_pb2 import Any  # noqa: E402
from google.protobuf.timestamp_pb2 import Timestamp  # noqa: E402


def wrapped(message):
    box = Any()
    box.Pack(message)
    return box


descriptor = f.FlightDescriptor(type=f.FlightDescriptor.CMD, cmd=b"c\x00d")
path = f.FlightDescriptor(type=f.FlightDescriptor.PATH, path=["lake", "", "t\u00e4ble"])
endpoint = f.FlightEndpoint(
    ticket=f.Ticket(ticket=b"tick"),
    location=[f.Location(uri="grpc://a:1"), f.Location(uri="")],
    expiration_time=Timestamp(seconds=1700000000, nanos=5),
    app_metadata=b"m",
)
info = f.FlightInfo(
    schema=b"sch", flight_descriptor=descriptor, endpoint=[endpoint, f.FlightEndpoint()],
    total_records=-1, total_bytes=1 << 40, ordered=True, app_metadata=b"am",
)
ingest = s.CommandStatementIngest(
    table_definition_options=s.CommandStatementIngest.TableDefinitionOptions(if_not_exist=1, if_exists=2),
    table="t", schema="ns", catalog="", temporary=True, transaction_id=b"", options={"k": "", "": "v"},
)
MESSAGES = {
    "DESCRIPTOR": descriptor,
    "PATH": path,
    "ENDPOINT": endpoint,
    "INFO": info,
    "INFO_EMPTY": f.FlightInfo(),
    "POLL_INFO": f.PollInfo(info=f.FlightInfo(total_records=-1), flight_descriptor=path, progress=0.0,
                            expiration_time=Timestamp(seconds=-1)),
    "SCHEMA_RESULT": f.SchemaResult(schema=b"s"),
    "PUT_RESULT": f.PutResult(app_metadata=b"7"),
    "ACTION": f.Action(type="create_table", body=b"{}"),
    "RESULT": f.Result(body=b"x" * 130),
    "ACTION_TYPE": f.ActionType(type="a", description="b"),
    "CRITERIA": f.Criteria(expression=b"e"),
    "HANDSHAKE": f.HandshakeRequest(protocol_version=(1 << 64) - 1, payload=b"p"),
    "BASIC_AUTH": f.BasicAuth(username="u", password="p"),
    "CANCEL_REQUEST": f.CancelFlightInfoRequest(info=f.FlightInfo(schema=b"s")),
    "CANCEL_RESULT": f.CancelFlightInfoResult(status=3),
    "RENEW_REQUEST": f.RenewFlightEndpointRequest(endpoint=endpoint),
    "DATA": f.FlightData(flight_descriptor=descriptor, data_header=b"head", app_metadata=b"app", data_body=b"b" * 200),
    "STATEMENT_QUERY": wrapped(s.CommandStatementQuery(query="SELECT 1")),
    "STATEMENT_QUERY_TX": wrapped(s.CommandStatementQuery(query="SELECT 1", transaction_id=b"")),
    "STATEMENT_UPDATE": wrapped(s.CommandStatementUpdate(query="DELETE")),
    "STATEMENT_SUBSTRAIT": wrapped(s.CommandStatementSubstraitPlan(plan=s.SubstraitPlan(plan=b"x"))),
    "STATEMENT_INGEST": wrapped(ingest),
    "STATEMENT_TICKET": wrapped(s.TicketStatementQuery(statement_handle=b"h\x00")),
    "PREPARED_QUERY": wrapped(s.CommandPreparedStatementQuery(prepared_statement_handle=b"h")),
    "PREPARED_UPDATE": wrapped(s.CommandPreparedStatementUpdate(prepared_statement_handle=b"h")),
    "GET_CATALOGS": wrapped(s.CommandGetCatalogs()),
    "GET_DB_SCHEMAS": wrapped(s.CommandGetDbSchemas(catalog="", db_schema_filter_pattern="r%")),
    "GET_TABLES": wrapped(s.CommandGetTables(catalog="lake", table_name_filter_pattern="", table_types=["TABLE", ""],
                                             include_schema=True)),
    "GET_TABLE_TYPES": wrapped(s.CommandGetTableTypes()),
    "GET_SQL_INFO": wrapped(s.CommandGetSqlInfo(info=[0, 8, 500, 4294967295])),
    "GET_TYPE_INFO": wrapped(s.CommandGetXdbcTypeInfo(data_type=-5)),
    "GET_PRIMARY_KEYS": wrapped(s.CommandGetPrimaryKeys(db_schema="ns", table="t")),
    "GET_EXPORTED_KEYS": wrapped(s.CommandGetExportedKeys(catalog="c", table="t")),
    "GET_IMPORTED_KEYS": wrapped(s.CommandGetImportedKeys(table="t")),
    "GET_CROSS_REFERENCE": wrapped(s.CommandGetCrossReference(pk_catalog="a", pk_table="b", fk_db_schema="",
                                                              fk_table="d")),
    "CREATE_PREPARED": wrapped(s.ActionCreatePreparedStatementRequest(query="SELECT 2")),
    "PREPARED": wrapped(s.ActionCreatePreparedStatementResult(
        prepared_statement_handle=b"h", dataset_schema=b"d", parameter_schema=b"p")),
    "CLOSE_PREPARED": wrapped(s.ActionClosePreparedStatementRequest(prepared_statement_handle=b"h")),
    "CANCEL_QUERY": wrapped(s.ActionCancelQueryRequest(info=b"i")),
    "UPDATE_RESULT": s.DoPutUpdateResult(record_count=-2),
    "BIND_RESULT": s.DoPutPreparedStatementResult(prepared_statement_handle=b""),
}

print("/* pb_flight_golden.h - messages as Google's protobuf library writes them, in hexadecimal; for tests.")
print(" * Made by tests/golden/flight/gen_flight_golden.py; the values are there. */")
for name, message in MESSAGES.items():
    data = message.SerializeToString(deterministic=True).hex()
    print(f"#define GOLDEN_{name} \\")
    lines = [data[i:i + 96] for i in range(0, len(data), 96)] or [""]
    print(" \\\n".join(f'    "{line}"' for line in lines))
